"""What `import bireme` offers a training script: its rank, records, checkpoints, exact data."""

from __future__ import annotations
