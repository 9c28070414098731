"""What a pod says last keeps the error of its script, whatever a save that ends later adds."""

from __future__ import annotations

from pathlib import Path

import pytest

from bireme.backends.kubernetes.observe import termination_log
from bireme.runtime.script import notes


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BIREME_LAST_WORDS", str(tmp_path / "log"))
    return tmp_path / "log"


def test_a_save_that_ends_after_the_error_does_not_wipe_it(words: Path) -> None:
    text = "Traceback (most recent call last):\n  step=1 saved=2\r\nValueError: the labels are wrong\n"
    words.write_text(f"bireme-report asked=1 time=12.5 step=7 place=train.py:3 step=1\n{text}", newline="")

    notes.tell_far(saved=6)

    told = termination_log.told(words.read_text())
    assert (told.type, told.message, told.step) == ("ValueError", "the labels are wrong", 7)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "bireme-report asked=1 saved=6\n"),
        ("bireme-report asked=1 step=7\n", "bireme-report asked=1 step=7 saved=6\n"),
        ("bireme-report asked=1 saved=5 lost\nstep 3\n", "bireme-report asked=1 saved=5 lost\nstep 3\n"),
        ("bireme-report asked=0 trainer=lightning\n", "bireme-report asked=0 trainer=lightning\n"),
    ],
)
def test_only_how_far_it_came_is_changed(words: Path, before: str, after: str) -> None:
    if before:
        words.write_text(before)

    notes.tell_far(saved=6)

    assert words.read_text() == after
