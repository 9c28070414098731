"""Are TensorFlow's and Keras's objects saved and restored: apart_tensorflow.py, run in a process apart.

TensorFlow and triton, which torch.compile imports, crash each other when they meet in one process.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

TESTS = Path(__file__).with_name("apart_tensorflow.py")
ROOT = Path(__file__).parents[3]
PATIENCE = 280.0


@pytest.mark.frameworks
@pytest.mark.slow
@pytest.mark.skipif(find_spec("tensorflow") is None, reason="TensorFlow is not installed")
def test_tensorflow_s_objects_come_back() -> None:
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(TESTS)]

    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)

    assert done.returncode == 0, done.stdout
