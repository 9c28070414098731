"""Which losses are new: each crash and each eviction counts once, against its own budget."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from bireme.model.job import Job, RestartScope
from bireme.model.replicas import Loss, Observation, Replica, ReplicaPhase
from bireme.model.status import Sighting, Status


class Losses(Struct, frozen=True):
    """What was lost since the last look, by replica name."""

    crashes: dict[str, int] = {}
    evictions: tuple[str, ...] = ()
    whole: bool = False
    """Evictions left nobody of this attempt, and nobody fell by a crash of its own."""

    def __bool__(self) -> bool:
        return bool(self.crashes or self.evictions)


def count(
    job: Job, status: Status, observation: Observation, wanted: frozenset[str]
) -> tuple[Status, Losses]:
    """Note what is seen of this attempt and count what was lost, at most once for each uid and restart."""
    current = {one.name: one for one in observation.replicas if one.attempt == status.attempt}
    expected = wanted.difference(status.done)
    crashes: dict[str, int] = {}
    evictions: list[str] = []
    sightings: dict[str, Sighting] = {}
    for name, replica in current.items():
        before = _sighting(status, replica)
        after = _look(replica, before, expected=name in expected, wanted=name in wanted)
        sightings[name] = after
        grown = after.losses - before.losses
        if grown and after.closed and is_evicted(replica):
            evictions.append(name)
            grown -= 1
        if grown:
            crashes[name] = grown
    for name, known in status.sightings.items():
        if name not in current and name in expected and not known.closed:
            evictions.append(name)
    whole = bool(evictions) and not any(
        _holds_out(one) for one in current.values() if one.name not in evictions
    )
    counted = replace(status, sightings=sightings)
    return _charge(job, counted, Losses(crashes, tuple(evictions), whole))


def close(status: Status, names: frozenset[str]) -> Status:
    """Mark replicas whose end is our own wish, so that it is not counted."""
    return replace(
        status,
        sightings={
            name: replace(known, closed=True) if name in names else known
            for name, known in status.sightings.items()
        },
    )


def is_evicted(replica: Replica) -> bool:
    """Whether a replica that is lost was taken with its place, or by somebody, and did not fall by itself."""
    return replica.phase is not ReplicaPhase.FAILED or replica.loss is Loss.EVICTION or replica.stopping


def is_counted(status: Status, replica: Replica) -> bool:
    """Whether the end of a replica was counted as a loss, and was not our own wish."""
    known = status.sightings.get(replica.name)
    return known is not None and known.uid == replica.uid and known.losses > replica.restarts


def _sighting(status: Status, replica: Replica) -> Sighting:
    known = status.sightings.get(replica.name)
    return known if known is not None and known.uid == replica.uid else Sighting(replica.uid)


def _look(replica: Replica, before: Sighting, *, expected: bool, wanted: bool) -> Sighting:
    if not wanted:
        return replace(before, closed=True)
    removed = replica.stopping or replica.abandoned
    if before.closed and removed:
        return before
    # A replica that somebody removes although we want it is as good as gone, even if it then ends
    # without an error; so is one whose node is gone.
    over = replica.phase is ReplicaPhase.FAILED or (removed and expected)
    return Sighting(replica.uid, max(before.losses, replica.restarts + (1 if over else 0)), closed=over)


def _holds_out(replica: Replica) -> bool:
    """Whether the replica is left, or fell by its own crash: then it is not the place that was lost."""
    if replica.phase is ReplicaPhase.FAILED:
        return replica.loss is Loss.CRASH
    return replica.is_alive and not replica.stopping and not replica.abandoned


def _charge(job: Job, status: Status, losses: Losses) -> tuple[Status, Losses]:
    if not losses:
        return status, losses
    crashes, evictions = sum(losses.crashes.values()), len(losses.evictions)
    if job.unit is RestartScope.GANG:
        # A gang is lost once, however many of its members fall with the first; and when a place
        # was lost, the crashes beside it are its echo.
        crashes, evictions = (0, 1) if losses.evictions else (1, 0)
    elif losses.whole:
        evictions = 1
    charged = replace(status, crashes=status.crashes + crashes, evictions=status.evictions + evictions)
    return charged, losses
