"""Tells what is of the present attempt and what of an earlier one.

Not every replica says of which attempt it is: a label can be taken away by anybody who may edit pods, and
pods that another operator made for the same job never had one.
"""

from __future__ import annotations

from msgspec.structs import replace

from bireme.model.replicas import Observation, Replica
from bireme.model.status import Status


def resolved(status: Status, observation: Observation) -> Observation:
    """The observation with the attempt of every replica.

    What was seen in this attempt is of this attempt: sightings begin anew with each. Anything else counts as
    of the first one. While that is the present one there never was another that it could be of, so it is
    carried on; later it is older than whatever runs now, and is removed.
    """
    if all(one.attempt_told for one in observation.replicas):
        return observation
    replicas = tuple(
        one if one.attempt_told else replace(one, attempt=_attempt(status, one))
        for one in observation.replicas
    )
    return replace(observation, replicas=replicas)


def with_present_faults(status: Status, observation: Observation) -> Observation:
    """The observation without what could not be started in an earlier attempt.

    A backend shows a fault until the replica is removed, or until resources are asked for again. A job that
    was resumed meanwhile must not fail of it once more.
    """
    faults = tuple(fault for fault in observation.faults if fault.attempt in (None, status.attempt))
    return replace(observation, faults=faults) if faults != observation.faults else observation


def _attempt(status: Status, replica: Replica) -> int:
    known = status.sightings.get(replica.name)
    return status.attempt if known is not None and known.uid == replica.uid else 0
