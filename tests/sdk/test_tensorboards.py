"""TensorBoard is found beside the job's interpreter or on PATH, and its absence is explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from bireme import errors
from bireme.sdk import tensorboards


def _program(folder: Path) -> str:
    folder.mkdir()
    path = folder / "tensorboard"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_the_one_beside_the_interpreter_comes_first(tmp_path: Path) -> None:
    python = str(tmp_path / "own" / "python")
    on_path = _program(tmp_path / "path")

    assert tensorboards.program(python, {"PATH": str(tmp_path / "path")}) == on_path
    own = _program(tmp_path / "own")
    assert tensorboards.program(python, {"PATH": str(tmp_path / "path")}) == own


def test_without_one_it_is_said_how_to_have_it(tmp_path: Path) -> None:
    python = str(tmp_path / "own" / "python")

    with pytest.raises(errors.BadInput) as refused:
        tensorboards.program(python, {"PATH": str(tmp_path)})

    assert f"{tmp_path}/own/python -m pip install tensorboard" in str(refused.value)
