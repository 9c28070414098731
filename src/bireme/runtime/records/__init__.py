"""Records of a training script: laid out in files, written in the loop, read at any time."""

from __future__ import annotations
