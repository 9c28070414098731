"""Whoever cannot say that a person follows goes on following nevertheless."""

from __future__ import annotations

from pathlib import Path

import pytest

from bireme.runs import attendance
from bireme.runs.storage import locks
from tests.unit.runs.test_log_writer import files_that_may_not_grow


def test_a_follower_goes_on_where_its_lock_cannot_be_taken(tmp_path: Path) -> None:
    (tmp_path / attendance.LOCK).mkdir()

    with attendance.attending(tmp_path):
        pass


def test_a_follower_goes_on_without_a_terminal_on_a_full_disk(tmp_path: Path) -> None:
    with files_that_may_not_grow(), attendance.attending(tmp_path):
        assert not locks.is_held(tmp_path / attendance.LOCK)


def test_an_error_of_the_follower_is_its_own(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="of whoever follows"), attendance.attending(tmp_path):
        raise OSError("of whoever follows")
