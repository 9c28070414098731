"""Are the objects of TensorFlow, Keras and JAX saved and restored: apart_*.py, each in a process apart."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.unit import apart


@pytest.mark.frameworks
@pytest.mark.slow
@pytest.mark.parametrize("framework", ["tensorflow", "jax"])
def test_its_objects_come_back(framework: str) -> None:
    if find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed on this machine; `make frameworks` installs it")

    apart.passed(Path(__file__).with_name(f"apart_{framework}.py"))
