"""The last step of a file of records is found at its end, without reading all of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bireme.runtime.records import record_reader
from bireme.runtime.records.recorder import Recorder


def _tell(words: str) -> None:
    pytest.fail(words)


@pytest.mark.parametrize("steps", [1, 2, 40_000])
@pytest.mark.parametrize("value", [0.0, 1.5])
def test_the_last_step_is_found(tmp_path: Path, steps: int, value: float) -> None:
    recorder = Recorder(str(tmp_path), 0, 0, _tell)
    for step in range(steps):
        recorder.scalars(step, {"loss": value, "accuracy": 0.0, "zero": 0.0})

    (file,) = record_reader.files(str(tmp_path))

    assert record_reader.last_step(file.path) == steps - 1
    recorder.close()
    assert record_reader.last_step(file.path) == steps - 1


def test_what_is_no_file_of_records_has_no_step(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "zeros").write_bytes(bytes(100_000))
    (tmp_path / "noise").write_bytes(os.urandom(100_000))
    os.mkfifo(tmp_path / "pipe")

    for name in ("empty", "zeros", "noise", "pipe", "absent", "."):
        assert record_reader.last_step(str(tmp_path / name)) == -1


@pytest.mark.parametrize("size", [200_000, 3_000_000])
def test_the_last_step_is_found_before_a_large_record(tmp_path: Path, size: int) -> None:
    recorder = Recorder(str(tmp_path), 0, 0, _tell)
    for step in range(1000):
        recorder.scalars(step, {"loss": 0.5})
    recorder.text(999, "samples", "\3" * size)

    (file,) = record_reader.files(str(tmp_path))

    assert record_reader.last_step(file.path) == 999
    recorder.close()
    assert record_reader.last_step(file.path) == 999


def test_what_looks_like_scalars_everywhere_is_not_checked_for_ever(tmp_path: Path) -> None:
    # 60 000 values at every other place of the file: to check them all would take minutes.
    frame = b"\0\0\0\0" + (20 + 12 * 60_000).to_bytes(4, "little") + b"\3\0" + (60_000).to_bytes(2, "little")
    (tmp_path / "hostile").write_bytes((frame + b"\1\1\1\1") * 200_000)

    assert record_reader.last_step(str(tmp_path / "hostile")) == -1
