"""What the tests of records share: a recorder in a folder, what it told, and what a reader finds there."""

from __future__ import annotations

from pathlib import Path

from bireme.runtime.records import record_format, record_reader
from bireme.runtime.records.recorder import Recorder


class Bench:
    """A folder, a clock that stands still, and the sentences that were told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.told: list[str] = []
        self.now = 1000.0

    def recorder(self, rank: int = 0, attempt: int = 0) -> Recorder:
        return Recorder(str(self.folder), rank, attempt, self.told.append, lambda: self.now)

    def records(self) -> list[record_format.Record]:
        return read(self.folder)

    def scalars(self) -> list[tuple[int, dict[str, float]]]:
        return [(one.step, one.values) for one in self.records() if isinstance(one, record_format.Scalars)]


def read(folder: Path) -> list[record_format.Record]:
    """All records of a folder, but for those that only say who wrote."""
    found = [
        one
        for file in record_reader.files(str(folder))
        for one in record_reader.RecordReader(file.path).read()
    ]
    return [one for one in found if not isinstance(one, record_format.FileOpened)]


def losses(folder: Path) -> list[int]:
    """The steps of which a loss was recorded."""
    return [one.step for one in read(folder) if isinstance(one, record_format.Scalars)]
