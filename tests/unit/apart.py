"""Runs tests in a separate process: those whose framework must not meet what other tests do.

TensorFlow and triton, which torch.compile imports, crash each other. JAX starts threads, and a process with
threads may hang after a fork, which other tests do.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 280.0


def passed(tests: Path) -> str:
    """What pytest says of a file of tests, all of which must pass; a skip is a failure, too."""
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tests)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout, done.stdout
    return done.stdout
