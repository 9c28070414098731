"""A clock that was set back does not stretch what a job waits for."""

from __future__ import annotations

import pytest

from bireme.core import clock
from bireme.model.decisions import Stop
from bireme.model.job import CleanPods, Restart, RestartScope, RunPolicy
from bireme.model.status import Phase, RefusedStart, Retry, Status
from tests.unit import build
from tests.unit.core.world import World, at_work, crashed, running, starts, succeeded, workers

HOUR = 3600.0


@pytest.mark.parametrize("unit", RestartScope)
def test_a_back_off_is_not_longer_than_itself_after_the_clock_was_set_back(unit: RestartScope) -> None:
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
    world = World(workers(1, policy=RunPolicy(deadline=100)))
    world.look(at=2 * HOUR)

    decision = world.look(running("worker-0"), at=HOUR)
    assert decision.wake_at == HOUR + 100.0
    late = world.look(running("worker-0"), at=HOUR + 101.0)

    assert late.status.phase.is_final


def test_replicas_that_outlive_a_success_are_stopped_after_the_clock_was_set_back() -> None:
    master = build.role("Master", restart=Restart.NEVER)
    policy = RunPolicy(linger=30.0, clean_pods=CleanPods.NONE)
    world = World(build.job("PyTorchJob", master, build.role("Worker"), policy=policy))
    world.look(at=2 * HOUR)
    world.look(succeeded("master-0"), running("worker-0"), at=2 * HOUR + 1.0)
    assert world.status.phase is Phase.SUCCEEDED

    waits = world.look(succeeded("master-0"), running("worker-0"), at=2 * HOUR + 2.0)
    stops = world.look(succeeded("master-0"), running("worker-0"), at=HOUR)

    assert (waits.actions, waits.wake_at) == ((), 2 * HOUR + 31.0)
    assert [one.replica for one in stops.actions if isinstance(one, Stop)] == ["mnist-worker-0"]


def test_a_refused_start_is_tried_again_in_time_after_the_clock_was_set_back() -> None:
    refused = Status(refusal=RefusedStart("mnist-worker-0", 3, HOUR + 2.0))

    status = clock.settled(refused, 10.0)

    assert status.refusal == RefusedStart("mnist-worker-0", 3, 12.0)


def test_small_differences_between_the_clocks_of_two_operators_change_nothing() -> None:
    status = Status(started=130.0, retries={"": Retry(2, 101.0)})

    assert clock.settled(status, 100.0) == status
