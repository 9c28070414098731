"""A replica whose backend does not tell its attempt: whom the status knows goes on, others are replaced."""

from __future__ import annotations

from msgspec.structs import replace

from bireme.core.restarts import attempts
from bireme.model.decisions import Stop
from bireme.model.job import RestartScope
from bireme.model.replicas import Observation, Replica
from bireme.model.status import Sighting, Status
from tests.unit.core.world import World, crashed, running, starts, stops, workers


def untold(replica: Replica) -> Replica:
    return replace(replica, attempt=0, attempt_told=False)


def resolved(status: Status, *replicas: Replica) -> list[int]:
    return [one.attempt for one in attempts.resolved(status, Observation(replicas)).replicas]


def test_a_replica_that_was_seen_in_this_attempt_is_of_it() -> None:
    status = Status(attempt=3, sightings={"mnist-worker-0": Sighting("worker-0/3")})

    assert resolved(status, untold(running("worker-0", attempt=3))) == [3]


def test_one_that_was_never_seen_is_of_the_first_attempt() -> None:
    assert resolved(Status(attempt=3), untold(running("worker-0", attempt=3))) == [0]
    assert resolved(Status(), untold(running("worker-0"))) == [0]


def test_another_of_the_same_name_is_not_the_one_that_was_seen() -> None:
    status = Status(attempt=3, sightings={"mnist-worker-0": Sighting("other")})

    assert resolved(status, untold(running("worker-0", attempt=3))) == [0]


def test_what_is_told_stays() -> None:
    status = Status(attempt=3, sightings={"mnist-worker-0": Sighting("worker-0/2")})

    assert resolved(status, running("worker-0", attempt=2)) == [2]


def test_a_replica_that_loses_its_label_goes_on() -> None:
    world = World(workers(unit=RestartScope.GANG))
    world.look(running("worker-0"), running("worker-1"))
    world.look(running("worker-0"), crashed("worker-1"))
    world.look(at=60.0)
    again = [running(f"worker-{index}", attempt=1) for index in range(2)]
    world.look(*again, at=61.0)

    decision = world.look(untold(again[0]), again[1], at=62.0)

    assert decision.actions == ()
    assert (world.status.attempt, world.status.crashes, world.status.evictions) == (1, 1, 0)


def test_a_stranger_without_a_label_is_removed_before_a_later_attempt_goes_on() -> None:
    world = World(workers(unit=RestartScope.GANG))
    world.look(running("worker-0"), running("worker-1"))
    world.look(running("worker-0"), crashed("worker-1"))

    decision = world.look(untold(running("worker-0", uid="stranger")), at=60.0)

    assert decision.actions == (Stop("mnist-worker-0", "stranger", 0.0),)
    assert starts(world.look(at=61.0)) == ["worker-0", "worker-1"]


def test_pods_that_another_operator_made_are_carried_on_as_the_first_attempt() -> None:
    world = World(workers())

    decision = world.look(untold(running("worker-0")), untold(running("worker-1")))

    assert (stops(decision), starts(decision)) == ([], [])
    assert sorted(world.status.sightings) == ["mnist-worker-0", "mnist-worker-1"]
