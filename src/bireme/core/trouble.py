"""What keeps a job from going on although nothing of it has failed: said once, until it is over."""

from __future__ import annotations

from msgspec.structs import replace

from bireme.model.decisions import Event, EventType
from bireme.model.replicas import Observation, Replica, ReplicaPhase
from bireme.model.status import Status

REASON = "ReplicaWaiting"
"""The reason of the event where a replica gives none of its own."""


def note(status: Status, observation: Observation, known: str) -> tuple[Status, tuple[Event, ...]]:
    """Take up what replicas that cannot begin say of themselves, and tell it unless it is `known`.

    A fault that is tried again goes first.
    """
    if observation.faults:
        refused = Event(EventType.WARNING, "FailedCreatePod", status.trouble)
        return status, () if status.trouble == known else (refused,)
    stuck = _stuck(status, observation)
    if not stuck:
        return status, ()
    text = _told(stuck)
    event = Event(EventType.WARNING, stuck[0].reason or REASON, text)
    return replace(status, trouble=text), () if text == known else (event,)


def _stuck(status: Status, observation: Observation) -> list[Replica]:
    return [
        one
        for one in observation.replicas
        if one.attempt == status.attempt
        and one.phase is ReplicaPhase.PENDING
        and one.message
        and not one.stopping
    ]


def _told(stuck: list[Replica]) -> str:
    """The first one's own sentence; those who say the same are only counted."""
    first = stuck[0]
    same = sum(1 for one in stuck if one.message == first.message) - 1
    return f"{first.name}{f' and {same} more' if same else ''}: {first.message}"
