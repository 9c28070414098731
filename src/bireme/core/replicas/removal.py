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
"""Seconds past its grace after which a replica on a node that does not answer is given up."""


def judged(observation: Observation, now: float) -> Observation:
    """The observation with every replica marked that is given up now."""
    if not any(one.unreachable and one.stopping for one in observation.replicas):
        return observation
    replicas = tuple(
        replace(one, abandoned=True) if (at := _given_up_at(one)) is not None and now >= at else one
        for one in observation.replicas
    )
    return replace(observation, replicas=replicas)


def next_judgement(observation: Observation, now: float) -> float | None:
    """When the next replica is to be given up: no change of the cluster tells of that."""
    times = [_given_up_at(one) for one in observation.replicas if one.unreachable and one.stopping]
    return min((at for at in times if at is not None and at > now), default=None)


def leftovers(status: Status, observation: Observation) -> tuple[Abandon, ...]:
    """Strike off what has ended and only waits for its kubelet, where that end is no news any more.

    A kubelet that says that a pod has ended takes another second to remove it. A replica whose end is not
    counted yet stays: without it nobody could tell how it ended.
    """
    return tuple(
        Abandon(one.name, one.uid)
        for one in observation.replicas
        if one.leftover and not one.abandoned and _is_no_news(status, one)
    )


def _given_up_at(replica: Replica) -> float | None:
    if not replica.unreachable or replica.grace_ends is None:
        return None
    return replica.grace_ends + ABANDON_AFTER


def _is_no_news(status: Status, replica: Replica) -> bool:
    known = status.sightings.get(replica.name)
    is_closed = known is not None and known.uid == replica.uid and known.closed
    return is_closed or (replica.attempt_told and replica.attempt < status.attempt)
