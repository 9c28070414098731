"""What did the ranks leave behind that tells why: their reports, and the last lines that they printed."""

from __future__ import annotations

from bireme.runs import rank_reports as runs_reports
from bireme.runs.directory import RunDirectory
from bireme.runs.logs import log_reader
from bireme.runs.logs.log_entries import (
    Stream,
)
from bireme.runs.logs.log_reader import LogLine, LogSelection
from bireme.runs.rank_reports import RankReport as RankReport
from bireme.runs.rank_reports import ReportedError as ReportedError
from bireme.runs.rank_reports import Reports as Reports
from bireme.sdk import tracebacks

TAIL = 10
"""Lines of a rank's output that are shown with its end."""

_LOOK_BACK = 200


def reports(run: RunDirectory) -> Reports:
    """Every report that can be read; a rank that was killed, or is not plain Python, leaves none."""
    return runs_reports.every(run.path)


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
        for line in log_reader.tail(run.logs, _LOOK_BACK, LogSelection(replica=replica))
        if line.time <= until and line.text.strip()
    ]
