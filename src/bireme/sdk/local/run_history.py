"""Reads what became of each replica of a run: its journal, its reports, and its last lines."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from bireme.backends.local.journal_entries import Began, Ended, Entry, Gone, Over, Ran
from bireme.runs import rank_reports
from bireme.runs.directory import RunDirectory
from bireme.runs.journal import Journal
from bireme.runs.logs import log_reader
from bireme.runs.logs.log_entries import Stream
from bireme.runs.logs.log_reader import LogLine, LogSelection
from bireme.runs.rank_reports import Reports
from bireme.sdk import tracebacks
from bireme.sdk.diagnosis import TAIL
from bireme.sdk.replica_history import Failure, ReplicaHistory

_LOOK_BACK = 200
_TOGETHER = 1.0
"""Seconds between the end of a program that we stopped and the removal of its replica."""


def of(run: RunDirectory) -> tuple[ReplicaHistory, ...]:
    """Reads the journal of a run."""
    journal: Journal[Entry] = Journal(run.journal_path, Entry)
    return lives(journal.read())


def lives(entries: Iterable[Entry]) -> tuple[ReplicaHistory, ...]:
    """Every replica that ever began, in that order."""
    found: dict[str, ReplicaHistory] = {}
    for entry in entries:
        if isinstance(entry, Began):
            found[entry.uid] = ReplicaHistory(
                entry.uid, entry.replica, entry.role, entry.index, entry.attempt, entry.at
            )
        elif entry.uid in found:
            found[entry.uid] = _after(found[entry.uid], entry)
    return tuple(found.values())


def _after(life: ReplicaHistory, entry: Ran | Ended | Over | Gone) -> ReplicaHistory:
    match entry:
        case Ran(container=container, pid=pid, at=at):
            again = container in life.containers
            return replace(
                life,
                ran=at,
                first=life.first or at,
                ended=None,
                pid=pid,
                containers=life.containers | {container},
                restarts=life.restarts + again,
            )
        case Ended(exit_code=0, at=at):
            return replace(life, ended=at, exit_code=0)
        case Ended(exit_code=code, at=at):
            failure = Failure(at, code, entry.container, entry.reason, entry.message)
            return replace(life, ended=at, exit_code=code, failures=(*life.failures, failure))
        case Over(phase=phase, at=at):
            return replace(
                life,
                phase=phase,
                ended=life.ended or at,
                exit_code=entry.exit_code,
                loss=entry.loss,
                reason=entry.reason,
                message=entry.message,
                restarts=entry.restarts,
            )
        case Gone(at=at):
            return replace(life, gone=True, ended=life.ended or at, failures=_own(life, at))


def _own(life: ReplicaHistory, gone: float) -> tuple[Failure, ...]:
    """The failures that were the replica's own: one that ends as it is removed was ended by us."""
    if life.phase is None and life.failures and gone - life.failures[-1].at < _TOGETHER:
        return life.failures[:-1]
    return life.failures


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
