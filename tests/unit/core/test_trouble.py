"""What keeps a job from going on is said once, until it is over."""

from __future__ import annotations

from msgspec.structs import replace

from bireme.model.decisions import Event, EventType
from bireme.model.replicas import Fault, Replica
from tests.unit.core.world import World, pending, running, workers

PULL = "the image nowhere/none:1 cannot be pulled: check its name"


def stuck(name: str, message: str = PULL) -> Replica:
    return replace(pending(name), message=message, reason="ImagePullBackOff")


def test_a_replica_that_cannot_begin_is_told_of_in_its_own_words() -> None:
    world = World(workers(2))

    decision = world.look(stuck("worker-0"), running("worker-1"))

    text = f"mnist-worker-0: {PULL}"
    assert world.status.trouble == text
    assert Event(EventType.WARNING, "ImagePullBackOff", text) in decision.events


def test_it_is_told_once() -> None:
    world = World(workers(1))
    world.look(stuck("worker-0"))

    decision = world.look(stuck("worker-0"), at=1.0)

    assert decision.events == ()


def test_those_who_say_the_same_are_counted() -> None:
    world = World(workers(3))

    world.look(stuck("worker-0"), stuck("worker-1"), stuck("worker-2", "no node has 4 cpu"))

    assert world.status.trouble == f"mnist-worker-0 and 1 more: {PULL}"


def test_it_is_over_when_the_replica_runs() -> None:
    world = World(workers(1))
    world.look(stuck("worker-0"))

    world.look(running("worker-0"), at=1.0)

    assert world.status.trouble == ""


def test_a_refused_action_is_told_before_a_waiting_replica() -> None:
    world = World(workers(2))

    fault = Fault("mnist-worker-1", "quota exceeded")
    decision = world.look(stuck("worker-0"), faults=(fault,))
    again = world.look(stuck("worker-0"), faults=(fault,), at=0.5)

    assert world.status.trouble == "quota exceeded"
    assert Event(EventType.WARNING, "FailedCreatePod", "quota exceeded") in decision.events
    assert again.events == ()
