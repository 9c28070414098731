"""Reads what the ranks of a run wrote down when they ended: whether they read their rank, their error."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from bireme.model.decode_errors import DAMAGED
from bireme.model.replicas import Told
from bireme.runs.storage import files

FOLDER = "reports"
"""In the directory of a run."""
LONGEST = 2000
"""Characters of a message and of a place that are kept: whatever a script raises, a status stays small."""


class ReportedError(Struct, frozen=True):
    """What ended a script, as the script's own interpreter saw it."""

    type: str
    message: str
    traceback: str
    time: float
    place: str = "?"
    """File and line; a report of an earlier version does not tell it."""
    status: int | None = None
    """With which a SystemExit ended it, if that was a number."""

    @property
    def told(self) -> Told:
        place, message = self.place[:LONGEST], self.message[:LONGEST]
        return Told(self.type[:LONGEST], message, place, self.time, status=self.status)

    @property
    def line(self) -> str:
        """The error in a line, as the last line of a traceback has it."""
        return self.told.line


class RankReport(Struct, frozen=True):
    """What a rank wrote down about itself when it ended."""

    read_rank: bool = True
    error: ReportedError | None = None
    lost: str = ""
    """What its run could not save, as a sentence without its subject."""
    trainer: str = ""
    """The library that runs the script's loop, where it uses one that is known."""


Reports = dict[tuple[str, int], RankReport]
"""By replica and attempt."""


def every(run: Path) -> Reports:
    """Every report that can be read; a rank that was killed, or is not plain Python, leaves none."""
    found: Reports = {}
    for path in sorted((run / FOLDER).glob("*.json")):
        replica, _, attempt = path.stem.rpartition(".")
        if replica and attempt.isdecimal() and (report := _read(path)) is not None:
            found[replica, int(attempt)] = report
    return found


def one(run: Path, replica: str, attempt: int) -> RankReport | None:
    """The report of a replica in an attempt, if it can be read."""
    return _read(run / FOLDER / f"{replica}.{attempt}.json")


def _read(path: Path) -> RankReport | None:
    try:
        return msgspec.json.decode(files.read(path), type=RankReport)
    except (OSError, *DAMAGED):
        return None
