"""What a training script reads: in which order, which rank gets what, how it goes on at the exact sample."""

from __future__ import annotations
