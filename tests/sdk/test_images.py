"""A script without an image is told of one that fits."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from bireme import errors
from bireme.sdk.cluster import images

HERE = {"PATH": os.environ["PATH"], "VIRTUAL_ENV": sys.prefix}


def test_the_variable_wins_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('image = "python:3.12"\n')

    assert images.configured(tmp_path, {}) == "python:3.12"
    assert images.configured(tmp_path, {"BIREME_IMAGE": "mine:1"}) == "mine:1"
    assert images.configured(tmp_path / "absent", {}) == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("image = 3", "image is not a text"),
        ("immage = 'x'", "unknown setting 'immage'"),
        ("[", "cannot be read"),
    ],
)
def test_a_file_that_is_wrong_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "config.toml").write_text(text)

    with pytest.raises(errors.BadInput, match=said):
        images.configured(tmp_path, {})


def test_a_script_without_a_framework_gets_the_python_of_here(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import flax")

    found = images.suggested(tmp_path / "train.py", HERE)

    assert found in (f"python:{sys.version_info.major}.{sys.version_info.minor}", "python:3")


def test_the_hint_can_be_pasted(tmp_path: Path) -> None:
    error = images.missing(tmp_path / "absent.py", HERE)

    assert error.hint.startswith("add --image ")
