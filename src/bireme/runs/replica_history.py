"""Holds what became of each replica that a job ever had, on any backend."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from bireme.model.replicas import Loss, ReplicaPhase


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
    start_time: int = 0
    """When that process started, in clock ticks since boot."""
    starts: tuple[float, ...] = ()
    """Each time that a program of it was started."""
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
    counted: int = 0
    """Restarts that its runner had recorded by the last end of a program."""
    gone: bool = False
    host: str = ""
    """Where it ran, if that is not where its job is."""


def newest(all_lives: Iterable[ReplicaHistory]) -> dict[str, ReplicaHistory]:
    """The last life under each replica's name."""
    return {life.replica: life for life in all_lives}


def ran(all_lives: Iterable[ReplicaHistory], now: float) -> float | None:
    """Seconds for which the program of at least one replica ran; None if there was none."""
    # From when its program was first started; of one that was started again in place we know less.
    spans = sorted(
        (
            life.first or (life.began if life.restarts else life.ran or life.began),
            now if life.ended is None else life.ended,
        )
        for life in all_lives
    )
    total, reached = 0.0, float("-inf")
    for begin, end in spans:
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total if spans else None
