"""A command line of its own for each test; afterwards nothing of it lives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bireme.sdk.local import warm_interpreters
from tests.cli.commands import Cli, left_alive, until


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    folder = tmp_path / "work"
    folder.mkdir()
    found = Cli(tmp_path / "home", folder)
    yield found
    if runs := found.runs():
        done = found("rm", "--yes", *runs)
        assert done.status == 0, done.err
    if (found.home / "zygotes").is_dir():
        warm_interpreters.end(found.home)
    until("no process of a run is left", lambda: not left_alive(found.home), patience=10)
