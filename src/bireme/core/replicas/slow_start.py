"""Paces the starts of a job: one at first, more as they are accepted, and one alone after a refusal.

A backend that refuses one replica, because a quota is used up or it is too busy, refuses the others as well.
So after a refusal no other replica is tried: the whole job waits, and then asks for one replica alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from bireme.core.restarts import backoff
from bireme.model.job import ReplicaId
from bireme.model.replicas import Fault
from bireme.model.status import RefusedStart, Status

MOST_AT_ONCE = 24
"""Starts of one job that are under way side by side: more would not be faster, and each costs memory."""
MOST_OF_A_STEP = 128
"""Starts that one decision asks for. All of a large job would block the process that decides and fill its
memory: each replica may be told the addresses of all others."""
LONGEST_WAIT = 30.0
"""Seconds: room comes back when another job ends, which nothing announces, and one request is cheap."""


class Free(Struct, frozen=True, tag="free"):
    """All that may start are started, up to what one decision asks for."""


class Paused(Struct, frozen=True, tag="paused"):
    """No replica starts before a time."""

    until: float


class Probing(Struct, frozen=True, tag="probing"):
    """One replica is tried alone: the one that was refused, if it may start."""

    refusal: RefusedStart


Pace = Free | Paused | Probing


def chosen(pace: Pace, due: Sequence[ReplicaId]) -> Sequence[ReplicaId]:
    """The replicas that are started now, of those that may start."""
    match pace:
        case Free():
            return due[:MOST_OF_A_STEP]
        case Paused():
            return ()
        case Probing(refusal):
            return [replica for replica in due if replica.name == refusal.replica] or due[:1]
        case _:
            assert_never(pace)


def next_turn(pace: Pace, due: Sequence[ReplicaId], now: float) -> float | None:
    """The time at which the replicas that may start and are not chosen follow; None where there are none."""
    match pace:
        case Free():
            return now if len(due) > MOST_OF_A_STEP else None
        case Paused(until):
            return until
        case Probing(refusal):
            return _tried(refusal, now).not_before if due else None
        case _:
            assert_never(pace)


def lanes(accepted: int) -> int:
    """The number of starts side by side, given how many were accepted since the last refusal.

    Each one that is accepted makes room for one more beside itself: 1, 2, 4, 8... from answer to answer.
    """
    return min(1 + accepted, MOST_AT_ONCE)


def wait(failures: int) -> float:
    """Seconds until a replica is tried after so many refusals."""
    return min(LONGEST_WAIT, backoff.longest(failures))


def note(
    status: Status, faults: Sequence[Fault], missing: Sequence[ReplicaId], now: float
) -> tuple[Status, Pace]:
    """Remember that the backend refused a start, or forget it once it accepted the one that it refused.

    A backend may show a fault once or until the next try: how often it is seen does not matter.
    """
    refusal = status.refusal
    # The refusal that is told is always that of the same replica for as long as nothing changes.
    shared = {fault.replica: fault for fault in faults if not fault.alone}
    named = (shared[replica.name] for replica in missing if replica.name in shared)
    fault = next(named, next(iter(shared.values()), None))
    if fault is not None:
        status = replace(status, trouble=fault.text)
        if refusal is None:
            refused = fault.replica or next((replica.name for replica in missing), "")
            refusal = _tried(RefusedStart(refused, 0, now), now)
    elif refusal is not None and all(replica.name != refusal.replica for replica in missing):
        refusal = None
    status = replace(status, refusal=refusal)
    if refusal is None:
        return status, Free()
    return status, Paused(refusal.not_before) if refusal.not_before > now else Probing(refusal)


def try_again(status: Status, pace: Pace, due: Sequence[ReplicaId], now: float) -> Status:
    """Remember before a replica is tried alone which one it is, and that the next try is due later.

    Whichever replica it is: once it is accepted, there is room for the others. To wait for the one that was
    refused first would hold up all of them for as long as that one may not start for reasons of its own.
    """
    if not isinstance(pace, Probing) or not due:
        return status
    (tried,) = chosen(pace, due)
    return replace(status, refusal=replace(_tried(pace.refusal, now), replica=tried.name))


def _tried(refusal: RefusedStart, now: float) -> RefusedStart:
    failures = refusal.failures + 1
    return RefusedStart(refusal.replica, failures, now + wait(failures))
