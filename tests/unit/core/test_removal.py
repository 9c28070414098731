"""Which replicas that are being removed are struck off, and when."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bireme.core.replicas import removal
from bireme.model.decisions import Abandon
from bireme.model.replicas import Observation, Replica
from bireme.model.status import Sighting, Status
from tests.unit.core.world import World, crashed, running, stopping, workers

LOST = replace(stopping("worker-0"), unreachable=True, grace_ends=100.0)
LEFT = replace(crashed("worker-0"), stopping=True, leftover=True, grace_ends=100.0)
STRUCK_OFF = Abandon("mnist-worker-0", "worker-0/0")


def begun() -> World:
    world = World(workers(2))
    world.look(running("worker-0"), running("worker-1"))
    return world


def test_a_replica_on_a_lost_node_is_given_up_five_seconds_past_its_grace() -> None:
    world = begun()

    waits = world.look(LOST, running("worker-1"), at=104.0)
    over = world.look(LOST, running("worker-1"), at=105.0)

    assert STRUCK_OFF not in waits.actions
    assert waits.wake_at == 105.0, "nothing else tells that its time is over"
    assert STRUCK_OFF in over.actions


@pytest.mark.parametrize(
    "replica",
    [
        replace(LOST, unreachable=False),
        replace(LOST, grace_ends=None),
        replace(LOST, stopping=False, grace_ends=None),
    ],
)
def test_nobody_else_is_given_up(replica: Replica) -> None:
    seen = Observation((replica,))

    assert removal.judged(seen, now=1e9) == seen
    assert removal.next_judgement(seen, now=0.0) is None


def test_what_ended_and_is_counted_does_not_wait_for_its_kubelet() -> None:
    world = begun()

    decision = world.look(LEFT, running("worker-1"), at=1.0)

    assert world.status.sightings["mnist-worker-0"].closed, "it is recorded before it is struck off"
    assert decision.actions == (STRUCK_OFF,)


def test_what_ended_in_an_earlier_attempt_is_struck_off_unless_its_attempt_is_a_guess() -> None:
    status = Status(attempt=1)

    assert removal.leftovers(status, Observation((LEFT,))) == (STRUCK_OFF,)
    assert not removal.leftovers(status, Observation((replace(LEFT, attempt_told=False),)))


@pytest.mark.parametrize(
    "sighting", [None, Sighting("worker-0/0"), Sighting("another", closed=True), Sighting("worker-0/0", 1)]
)
def test_an_end_that_is_news_stays_until_it_is_counted(sighting: Sighting | None) -> None:
    status = Status(sightings={"mnist-worker-0": sighting} if sighting else {})

    assert not removal.leftovers(status, Observation((LEFT,)))


def test_a_replica_that_is_given_up_is_struck_off_once() -> None:
    world = begun()

    decision = world.look(replace(LEFT, unreachable=True), running("worker-1"), at=200.0)

    assert decision.actions.count(STRUCK_OFF) == 1
