"""The journal of a run: what its runner writes down about replicas, and what that comes to.

The next runner learns from it what was left behind, and every reader what became of each replica.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from bireme.model.replicas import Loss, Replica, ReplicaPhase
from bireme.runs.journal import Journal
from bireme.runs.replica_history import Failure, ReplicaHistory

_TOGETHER = 1.0
"""Seconds between the end of a program that we stopped and the removal of its replica."""


class Began(Struct, frozen=True, tag="began"):
    """A replica came into being."""

    uid: str
    replica: str
    role: str
    index: int
    attempt: int
    at: float


class Ran(Struct, frozen=True, tag="ran"):
    """A container of it was started as this process."""

    uid: str
    container: str
    pid: int
    start_time: int
    warm: bool
    at: float


class Ended(Struct, frozen=True, tag="ended"):
    """A container of it ended."""

    uid: str
    container: str
    exit_code: int
    at: float
    reason: str = ""
    message: str = ""
    restarts: int = 0
    """Of the whole replica so far: which ends count as restarts is known only to what has its pod."""


class Over(Struct, frozen=True, tag="over"):
    """The replica reached its final phase."""

    uid: str
    phase: ReplicaPhase
    exit_code: int | None
    restarts: int
    at: float
    loss: Loss = Loss.CRASH
    reason: str = ""
    message: str = ""


class Gone(Struct, frozen=True, tag="gone"):
    """The replica was removed."""

    uid: str
    at: float


Entry = Began | Ran | Ended | Over | Gone


def of(path: Path) -> tuple[ReplicaHistory, ...]:
    """Every replica that a journal knows."""
    journal: Journal[Entry] = Journal(path, Entry)
    return lives(journal.read())


def lives(entries: Iterable[Entry]) -> tuple[ReplicaHistory, ...]:
    """Every replica that ever began, in that order."""
    found: dict[str, ReplicaHistory] = {}
    for entry in entries:
        if isinstance(entry, Began):
            began = ReplicaHistory(entry.uid, entry.replica, entry.role, entry.index, entry.attempt, entry.at)
            found.setdefault(entry.uid, began)
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
                start_time=entry.start_time,
                starts=(*life.starts, at),
                containers=life.containers | {container},
                restarts=life.restarts + again,
            )
        case Ended(exit_code=code, at=at):
            failure = Failure(at, code, entry.container, entry.reason, entry.message)
            failures = (*life.failures, failure) if code else life.failures
            return replace(life, ended=at, exit_code=code, failures=failures, counted=entry.restarts)
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
            # A program that ends as its replica is removed was ended by us: that failure is not its own.
            is_ours = life.phase is None and life.failures and at - life.failures[-1].at < _TOGETHER
            own = life.failures[:-1] if is_ours else life.failures
            return replace(life, gone=True, ended=life.ended or at, failures=own)


def left_behind(life: ReplicaHistory) -> Replica:
    """How a replica is seen by a runner that did not start it: what has no recorded end was evicted."""
    told = Replica(
        name=life.replica,
        role=life.role,
        index=life.index,
        attempt=life.attempt,
        uid=life.uid,
        phase=life.phase or ReplicaPhase.FAILED,
    )
    if life.phase is None:
        return replace(
            told,
            restarts=life.counted,
            loss=Loss.EVICTION,
            reason="Evicted",
            message="its runner died, and it died with it",
        )
    return replace(
        told,
        restarts=life.restarts,
        loss=life.loss,
        exit_code=life.exit_code,
        reason=life.reason,
        message=life.message,
    )
