"""What a script notes of its checkpoints is read back, and nothing else is taken for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bireme.runtime.script import notes


def test_the_last_checkpoint_is_noted(tmp_path: Path) -> None:
    assert notes.saved(str(tmp_path)) is None

    notes.note_saved(str(tmp_path), 1, 40)
    notes.note_saved(str(tmp_path), 2, 50)

    found = notes.saved(str(tmp_path))
    assert found is not None
    assert (found.attempt, found.step) == (2, 50)
    assert found.time > 1e9
    assert [one.name for one in tmp_path.iterdir()] == ["checkpoints.last"]


@pytest.mark.parametrize("text", ["", "1 2", "1 2 x\n", "-1 2 3\n", "9" * 100_000, "\xff\xfe"])
def test_what_somebody_else_wrote_there_is_no_checkpoint(tmp_path: Path, text: str) -> None:
    (tmp_path / "checkpoints.last").write_text(text)

    assert notes.saved(str(tmp_path)) is None


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    notes.note_saved("", 0, 1)

    assert list(tmp_path.iterdir()) == []
