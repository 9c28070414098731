"""TensorBoard's own reader of event files."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any  # Any: TensorBoard has no types

import pytest


def events(folder: Path) -> Any:
    """What TensorBoard reads in a folder."""
    pytest.importorskip("tensorboard")
    # So TensorBoard is told to do without TensorFlow, which crashes a process that imports torch after it.
    sys.modules.setdefault("tensorboard.compat.notf", types.ModuleType("notf"))
    module: Any = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    found = module.EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0, "images": 0})
    found.Reload()
    return found
