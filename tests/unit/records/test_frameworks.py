"""Are the numbers of every framework understood: apart_frameworks.py, run in a process apart."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.unit import apart


@pytest.mark.frameworks
def test_numbers_of_numpy_torch_and_jax_are_understood() -> None:
    missing = [one for one in ("numpy", "torch", "jax") if find_spec(one) is None]
    if missing:
        pytest.skip(f"{missing[0]} is not installed on this machine; `make frameworks` installs it")

    apart.passed(Path(__file__).with_name("apart_frameworks.py"))
