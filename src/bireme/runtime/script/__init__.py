"""The offer of `import bireme` to a training script: its rank, records, checkpoints, exact data."""

from __future__ import annotations
