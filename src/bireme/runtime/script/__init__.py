"""What `import bireme` offers a training script: its place, records, checkpoints, exact data."""

from __future__ import annotations
