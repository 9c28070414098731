"""Tells what is of the present attempt and what is of an earlier one.

Not every replica tells its attempt: any user who may edit pods can remove a label, and pods that another
operator made for the same job never had one.
"""

from __future__ import annotations

from msgspec.structs import replace

from bireme.model.replicas import Observation, Replica
from bireme.model.status import Status


def resolved(status: Status, observation: Observation) -> Observation:
    """The observation with the attempt of every replica.

    A replica that was seen in this attempt is of this attempt: sightings begin anew with each. Any other
    counts as of the first one. While that is the present attempt there was no other that it could be of, so
    it is kept; later it is older than all that run now, and is removed.
    """
    if all(replica.attempt_told for replica in observation.replicas):
        return observation
    replicas: list[Replica] = []
    for replica in observation.replicas:
        known = status.sightings.get(replica.name)
        is_known = known is not None and known.uid == replica.uid
        found = replica.attempt if replica.attempt_told else status.attempt if is_known else 0
        replicas.append(replace(replica, attempt=found))
    return replace(observation, replicas=tuple(replicas))


def with_present_faults(status: Status, observation: Observation) -> Observation:
    """The observation without the faults of an earlier attempt.

    A backend shows a fault until the replica is removed, or until its resources are requested again. A job
    that was resumed meanwhile must not fail because of it once more.
    """
    faults = tuple(fault for fault in observation.faults if fault.attempt in (None, status.attempt))
    return replace(observation, faults=faults) if faults != observation.faults else observation
