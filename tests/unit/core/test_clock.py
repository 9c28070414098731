"""A clock that was set back does not stretch what a job waits for."""

from __future__ import annotations

import pytest

from bireme.core import clock
from bireme.model.job import RunPolicy, Unit
from bireme.model.status import Retry, Status
from tests.unit.core.world import World, at_work, crashed, running, starts, succeeded, workers

HOUR = 3600.0


@pytest.mark.parametrize("unit", Unit)
def test_a_back_off_is_not_longer_than_itself_after_the_clock_was_set_back(unit: Unit) -> None:
    world = at_work(workers(1, unit=unit))
    for failures in range(3):
        attempt = world.status.attempt
        world.look(crashed("worker-0", uid=f"{failures}", attempt=attempt), at=HOUR)
    (before,) = world.status.retries.values()
    assert before == Retry(3, HOUR + 2.0)

    world.look(at=10.0)
    due = world.look(at=12.0)

    assert starts(due) == ["worker-0"]


def test_a_deadline_comes_after_the_clock_was_set_back() -> None:
    world = World(workers(1, policy=RunPolicy(deadline=100.0)))
    world.look(at=2 * HOUR)

    decision = world.look(running("worker-0"), at=HOUR)
    assert decision.wake_at == HOUR + 100.0
    late = world.look(running("worker-0"), at=HOUR + 101.0)

    assert late.status.phase.is_final


def test_a_time_to_live_ends_after_the_clock_was_set_back() -> None:
    world = World(workers(1, policy=RunPolicy(ttl=100.0)))
    world.look(at=2 * HOUR)
    world.look(succeeded("worker-0"), at=2 * HOUR + 1.0)

    world.look(succeeded("worker-0"), at=HOUR)
    over = world.look(succeeded("worker-0"), at=HOUR + 100.0)

    assert over.status.expired


def test_small_differences_between_the_clocks_of_two_operators_change_nothing() -> None:
    status = Status(started=130.0, completed=131.0, retries={"": Retry(2, 101.0)})

    assert clock.settled(status, 100.0) == status
