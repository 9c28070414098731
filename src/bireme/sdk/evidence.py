"""What did the ranks leave behind that tells why: their reports, and the last lines that they printed."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from bireme.model.decoding import DAMAGED
from bireme.runs import files, logreading
from bireme.runs.directory import RunDirectory
from bireme.runs.logreading import Choice, LogLine
from bireme.runs.logs import Stream
from bireme.sdk import tracebacks

TAIL = 10
"""Lines of a rank's output that are shown with its end."""

_LOOK_BACK = 200


class ReportedError(Struct, frozen=True):
    """What ended a script, as the script's own interpreter saw it."""

    type: str
    message: str
    traceback: str
    time: float

    @property
    def line(self) -> str:
        """The error in a line, as the last line of a traceback has it."""
        first = next(iter(self.message.splitlines()), "")
        return f"{self.type}: {first}" if first else self.type


class Report(Struct, frozen=True):
    """What a rank wrote down about itself when it ended."""

    read_rank: bool = True
    error: ReportedError | None = None
    lost: str = ""
    """What its run could not save, as a sentence without its subject."""


Reports = dict[tuple[str, int], Report]
"""By replica and attempt."""


def reports(run: RunDirectory) -> Reports:
    """Every report that can be read; a rank that was killed, or is not plain Python, leaves none."""
    found: Reports = {}
    for path in sorted((run.path / "reports").glob("*.json")):
        replica, _, attempt = path.stem.rpartition(".")
        if replica and attempt.isdecimal() and (report := _report(path)) is not None:
            found[replica, int(attempt)] = report
    return found


def tail(run: RunDirectory, replica: str, until: float) -> tuple[str, ...]:
    """The last lines of a replica up to a time: of its standard error, or of all if that is empty."""
    lines = _last_lines(run, replica, until)
    errors = [line.text for line in lines if line.stream == Stream.STDERR]
    # Of a crash, the place where it happened comes first; names of extension modules follow.
    return tracebacks.crash(errors)[:TAIL] or tuple(errors or [line.text for line in lines])[-TAIL:]


def stderr(run: RunDirectory, replica: str, until: float) -> tuple[str, ...]:
    """The last lines that a replica wrote to its standard error up to a time."""
    return tuple(line.text for line in _last_lines(run, replica, until) if line.stream == Stream.STDERR)


def _last_lines(run: RunDirectory, replica: str, until: float) -> list[LogLine]:
    return [
        line
        for line in logreading.tail(run.logs, _LOOK_BACK, Choice(replica=replica))
        if line.time <= until and line.text.strip()
    ]


def _report(path: Path) -> Report | None:
    try:
        return msgspec.json.decode(files.read(path), type=Report)
    except (OSError, *DAMAGED):
        return None
