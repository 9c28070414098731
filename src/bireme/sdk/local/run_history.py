"""Reads what became of each replica of a run: its journal, its reports, and its last lines."""

from __future__ import annotations

from bireme.runs import rank_reports, replica_journal
from bireme.runs.directory import RunDirectory
from bireme.runs.logs import log_reader
from bireme.runs.logs.log_entries import Stream
from bireme.runs.logs.log_reader import LogLine, LogSelection
from bireme.runs.rank_reports import Reports
from bireme.runs.replica_history import ReplicaHistory
from bireme.sdk import tracebacks
from bireme.sdk.diagnosis import TAIL

_LOOK_BACK = 200


def of(run: RunDirectory) -> tuple[ReplicaHistory, ...]:
    """Reads the journal of a run."""
    return replica_journal.of(run.journal_path)


def reports(run: RunDirectory) -> Reports:
    """Every report that can be read; a rank that was killed, or is not plain Python, leaves none."""
    return rank_reports.every(run.path)


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
