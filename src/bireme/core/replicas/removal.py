"""Decides when a replica that is being removed is struck off instead of being waited for.

The next replica needs its name. Usually its node reports that it is gone. There are two cases in which that
report is not waited for: the node does not answer and the grace is long over; or the program is known to have
ended, and only the removal itself is still to be reported.
"""

from __future__ import annotations

from msgspec.structs import replace

from bireme.model.decisions import Abandon
from bireme.model.replicas import Observation, Replica
from bireme.model.status import Status

ABANDON_AFTER = 5.0
"""Seconds past its grace after which a replica on a node that does not answer is abandoned."""


def judged(observation: Observation, now: float) -> Observation:
    """The observation with every replica marked that is abandoned now."""
    if not any(replica.unreachable and replica.stopping for replica in observation.replicas):
        return observation
    replicas = tuple(
        replace(replica, abandoned=True)
        if (at := _abandoned_at(replica)) is not None and now >= at
        else replica
        for replica in observation.replicas
    )
    return replace(observation, replicas=replicas)


def next_judgement(observation: Observation, now: float) -> float | None:
    """The time at which the next replica is abandoned: no event of the cluster announces that."""
    times = [
        _abandoned_at(replica) for replica in observation.replicas if replica.unreachable and replica.stopping
    ]
    return min((at for at in times if at is not None and at > now), default=None)


def leftovers(status: Status, observation: Observation) -> tuple[Abandon, ...]:
    """Strike off replicas that have ended and only wait for their kubelet, where that end is known already.

    A kubelet that reports that a pod has ended takes another second to remove it. A replica whose end is not
    counted yet stays: without it, how it ended could not be told any more.
    """
    found: list[Abandon] = []
    for replica in observation.replicas:
        known = status.sightings.get(replica.name)
        is_closed = known is not None and known.uid == replica.uid and known.closed
        is_of_earlier = replica.attempt_told and replica.attempt < status.attempt
        if replica.leftover and not replica.abandoned and (is_closed or is_of_earlier):
            found.append(Abandon(replica.name, replica.uid))
    return tuple(found)


def _abandoned_at(replica: Replica) -> float | None:
    if not replica.unreachable or replica.grace_ends is None:
        return None
    return replica.grace_ends + ABANDON_AFTER
