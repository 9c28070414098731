"""What became of each replica that a run ever had: its journal, read as lives."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from bireme.backends.local.journal_entries import Began, Ended, Entry, Gone, Over, Ran
from bireme.model.replicas import Loss, ReplicaPhase
from bireme.runs.directory import RunDirectory
from bireme.runs.journal import Journal

_TOGETHER = 1.0
"""Seconds between the end of a program that we stopped and the removal of its replica."""


class Failure(Struct, frozen=True):
    """A program of a replica that ended with something else than 0."""

    at: float
    exit_code: int
    container: str
    reason: str = ""
    message: str = ""


class ReplicaHistory(Struct, frozen=True):
    """One replica from its beginning to its end; its successor under the same name is another life."""

    uid: str
    replica: str
    role: str
    index: int
    attempt: int
    began: float
    ran: float | None = None
    """When its program was last started."""
    first: float | None = None
    """When it was first started, where that is known."""
    ended: float | None = None
    pid: int | None = None
    exit_code: int | None = None
    failures: tuple[Failure, ...] = ()
    phase: ReplicaPhase | None = None
    """How it ended; None while it lives, or if it was removed before its end."""
    loss: Loss = Loss.CRASH
    reason: str = ""
    message: str = ""
    restarts: int = 0
    containers: frozenset[str] = frozenset()
    """Those that were started, so that the next start of one counts as a restart."""
    gone: bool = False
    host: str = ""
    """Where it ran, if that is not where its job is."""


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


def newest(all_lives: Iterable[ReplicaHistory]) -> dict[str, ReplicaHistory]:
    """The last life under each replica's name."""
    return {one.replica: one for one in all_lives}


def ran(all_lives: Iterable[ReplicaHistory], now: float) -> float | None:
    """Seconds for which the program of at least one replica ran; None if there was none."""
    spans = sorted((_start(one), now if one.ended is None else one.ended) for one in all_lives)
    total, reached = 0.0, float("-inf")
    for begin, end in spans:
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total if spans else None


def _start(life: ReplicaHistory) -> float:
    """When its program was first started; of one that was started again in place we know less."""
    return life.first or (life.began if life.restarts else life.ran or life.began)


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
