"""Counts new losses: each crash and each eviction once, against its own budget."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from bireme.model.job import Job, RestartScope
from bireme.model.replicas import Loss, Observation, Replica, ReplicaPhase
from bireme.model.status import Sighting, Status


class Losses(Struct, frozen=True):
    """The losses since the last observation, by replica name."""

    crashes: dict[str, int] = {}
    evictions: tuple[str, ...] = ()
    whole: bool = False
    """Evictions left no replica of this attempt, and none failed by a crash of its own."""

    def __bool__(self) -> bool:
        return bool(self.crashes or self.evictions)


def count(
    job: Job, status: Status, observation: Observation, wanted: frozenset[str]
) -> tuple[Status, Losses]:
    """Note what is seen of this attempt and count what was lost, at most once for each uid and restart."""
    # A loss is seen in many observations: the failed pod stays until it is removed, its count of restarts for
    # as long as it exists, and the process that counts may be another one after each step. So nothing is
    # counted from an observation alone, but only what exceeds the sighting that the status holds under the
    # same name and uid. That makes three cases. The same uid with more losses than before: the difference is
    # new. Another uid under the name: a new replica, which begins at no losses. A name that is missing, that
    # is still expected and whose end was not noted: the replica vanished with its node or was deleted, and
    # the last chance to count it is now, because its sighting is dropped below. `closed` marks ends that need
    # no more counting, those that we cause ourselves above all: `close` sets it before the replica is
    # stopped, and without it every removal by our own decision would look like an eviction.
    current = {replica.name: replica for replica in observation.replicas if replica.attempt == status.attempt}
    expected = wanted.difference(status.done)
    crashes: dict[str, int] = {}
    evictions: list[str] = []
    sightings: dict[str, Sighting] = {}
    for name, replica in current.items():
        before = _known(status, replica) or Sighting(replica.uid)
        after = _look(replica, before, expected=name in expected, wanted=name in wanted)
        sightings[name] = after
        grown = after.losses - before.losses
        # Of several losses since the last observation only the last one can be an eviction: those before it
        # were restarts in place.
        if grown and after.closed and is_evicted(replica):
            evictions.append(name)
            grown -= 1
        if grown:
            crashes[name] = grown
    for name, known in status.sightings.items():
        if name not in current and name in expected and not known.closed:
            evictions.append(name)
    # A replica that is left, or one that failed by a crash of its own, shows that not all was evicted.
    others = [replica for name, replica in current.items() if name not in evictions]
    is_any_left = any(
        replica.loss is Loss.CRASH if replica.phase is ReplicaPhase.FAILED else survives(replica)
        for replica in others
    )
    losses = Losses(crashes, tuple(evictions), whole=bool(evictions) and not is_any_left)
    status = replace(status, sightings=sightings)
    return (_charge(job, status, losses) if losses else status), losses


def close(status: Status, names: frozenset[str]) -> Status:
    """Mark replicas whose end is our own decision, so that it is not counted."""
    return replace(
        status,
        sightings={
            name: replace(known, closed=True) if name in names else known
            for name, known in status.sightings.items()
        },
    )


def is_evicted(replica: Replica) -> bool:
    """Whether a replica that is lost was evicted or deleted, and did not fail by itself."""
    return replica.phase is not ReplicaPhase.FAILED or replica.loss is Loss.EVICTION or replica.stopping


def is_counted(status: Status, replica: Replica) -> bool:
    """Whether the end of a replica was counted as a loss, and was not our own decision."""
    known = _known(status, replica)
    return known is not None and known.losses > replica.restarts


def survives(replica: Replica) -> bool:
    """Whether a replica lives and is not being removed."""
    return replica.is_alive and not replica.stopping and not replica.abandoned


def _known(status: Status, replica: Replica) -> Sighting | None:
    known = status.sightings.get(replica.name)
    return known if known is not None and known.uid == replica.uid else None


def _look(replica: Replica, before: Sighting, *, expected: bool, wanted: bool) -> Sighting:
    if not wanted:
        return replace(before, closed=True)
    removed = replica.stopping or replica.abandoned
    if before.closed and removed:
        return before
    # A replica that is removed although we want it is as good as gone, even if it then ends without an
    # error; so is one whose node is gone.
    over = replica.phase is ReplicaPhase.FAILED or (removed and expected)
    return Sighting(replica.uid, max(before.losses, replica.restarts + (1 if over else 0)), closed=over)


def _charge(job: Job, status: Status, losses: Losses) -> Status:
    crashes, evictions = sum(losses.crashes.values()), len(losses.evictions)
    if job.unit is RestartScope.GANG:
        # A gang is lost once, however many of its replicas fail with the first; and beside an eviction,
        # crashes are its consequence.
        crashes, evictions = (0, 1) if losses.evictions else (1, 0)
    elif losses.whole:
        evictions = 1
    return replace(status, crashes=status.crashes + crashes, evictions=status.evictions + evictions)
