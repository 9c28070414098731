"""Reports what keeps a job from starting although none of its replicas has failed: once, until it changes."""

from __future__ import annotations

from msgspec.structs import replace

from bireme.model.decisions import Event, EventType
from bireme.model.replicas import Observation, ReplicaPhase
from bireme.model.status import Status

REASON = "ReplicaWaiting"
"""The reason of the event where a replica gives none of its own."""


def note(status: Status, observation: Observation, known: str) -> tuple[Status, tuple[Event, ...]]:
    """Take up what pending replicas report of themselves, with an event unless it is `known`.

    A fault that is retried comes before that.
    """
    if observation.faults:
        refused = Event(EventType.WARNING, "FailedCreatePod", status.trouble)
        return status, () if status.trouble == known else (refused,)
    stuck = [
        replica
        for replica in observation.replicas
        if replica.attempt == status.attempt
        and replica.phase is ReplicaPhase.PENDING
        and replica.message
        and not replica.stopping
    ]
    if not stuck:
        return status, ()
    # The message of the first replica in full; others with the same message are only counted.
    first = stuck[0]
    same = sum(1 for replica in stuck if replica.message == first.message) - 1
    text = f"{first.name}{f' and {same} more' if same else ''}: {first.message}"
    event = Event(EventType.WARNING, first.reason or REASON, text)
    return replace(status, trouble=text), () if text == known else (event,)
