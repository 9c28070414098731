"""Data of a training script: its order, the share of each rank, resuming at the exact sample."""

from __future__ import annotations
