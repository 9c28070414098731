"""The operator's image holds what the operator needs, with Docker or without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tools.deploy import image

from bireme import __version__
from bireme.operator.install import operator_objects

DOCKERFILE = (Path(__file__).parents[3] / "Dockerfile").read_text()

pytest.importorskip("aiohttp")


def test_the_dockerfile_says_the_same() -> None:
    words = ", ".join(f'"{word}"' for word in image.ENTRYPOINT)

    assert f"USER {image.USER}\n" in DOCKERFILE
    assert f"ENTRYPOINT [{words}]\n" in DOCKERFILE
    assert "ENV " + " ".join(f"{name}={value}" for name, value in image.ENVIRONMENT.items()) in DOCKERFILE
    assert f"bireme-operator:{__version__} " in DOCKERFILE
    assert f"bireme-operator:{__version__}" == operator_objects.IMAGE


def test_the_layer_holds_the_operator_and_no_framework() -> None:
    files = image.layer()

    assert "/app/bireme/cli/__main__.py" in files
    assert any(name.startswith("/app/aiohttp/") for name in files)
    assert not any(name.startswith(("/app/torch/", "/app/pytest/")) for name in files)
    assert all(path.is_file() for path in files.values())
    assert sum(path.stat().st_size for path in files.values()) < 40_000_000


def test_the_operator_starts_from_the_layer_alone(tmp_path: Path) -> None:
    for name, source in image.layer().items():
        target = tmp_path / name.removeprefix("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(source)
    # Without the packages of the environment that runs the tests.
    words = [sys.executable, "-I", "-S", "-B", "-c", _PROGRAM, str(tmp_path / "app")]

    done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "--leader-elect" in done.stdout


_PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from bireme.cli.main import main
main(["operator", "--help"])
"""
