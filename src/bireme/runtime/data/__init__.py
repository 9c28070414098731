"""What a training script reads: in which order, which rank gets what, how it resumes at the exact sample."""

from __future__ import annotations
