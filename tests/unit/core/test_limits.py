"""When has a job used up its time, its crashes or its evictions."""

from __future__ import annotations

import pytest

from bireme.core.restarts import limits
from bireme.model.job import RestartScope, RunPolicy
from bireme.model.status import ConditionType, Phase, Status
from tests.unit.core.world import World, crashed, evicted, running, starts, succeeded, workers

DEADLINE = "Job mnist has failed because it was active longer than specified deadline"
BACKOFF = "Job mnist has failed because it has reached the specified backoff limit"
EVICTIONS = "Job mnist has failed because it was evicted 21 times, more than the 20 that are allowed"


def exceeded(policy: RunPolicy, status: Status, now: float = 0.0) -> str | None:
    return limits.exceeded(workers(policy=policy), status, now)


@pytest.mark.parametrize(
    ("limit", "crashes", "over"),
    [(None, 10_000, False), (0, 0, False), (0, 1, True), (3, 3, False), (3, 4, True), (3, 5, True)],
)
def test_crashes_are_forgiven_up_to_the_limit(limit: int | None, crashes: int, over: bool) -> None:
    verdict = exceeded(RunPolicy(backoff_limit=limit), Status(crashes=crashes))

    assert verdict == (BACKOFF if over else None)


@pytest.mark.parametrize(("evictions", "over"), [(20, False), (21, True)])
def test_evictions_have_a_budget_of_their_own(evictions: int, over: bool) -> None:
    verdict = exceeded(RunPolicy(backoff_limit=0), Status(evictions=evictions))

    assert verdict == (EVICTIONS if over else None)


def test_the_budget_of_evictions_can_be_set() -> None:
    policy = RunPolicy(eviction_limit=0)

    assert exceeded(policy, Status(evictions=0)) is None
    assert "evicted 1 times, more than the 0" in (exceeded(policy, Status(evictions=1)) or "")


@pytest.mark.parametrize(("now", "over"), [(109.9, False), (110.0, True), (500.0, True)])
def test_a_deadline_counts_from_the_start(now: float, over: bool) -> None:
    verdict = exceeded(RunPolicy(deadline=10), Status(started=100.0), now)

    assert verdict == (DEADLINE if over else None)


def test_a_job_without_a_deadline_or_a_start_is_never_late() -> None:
    assert exceeded(RunPolicy(), Status(started=0.0), 1e9) is None
    assert exceeded(RunPolicy(deadline=10), Status(), 1e9) is None


def test_the_time_of_the_deadline() -> None:
    job = workers(policy=RunPolicy(deadline=10))

    assert limits.deadline(job, Status(started=100.0)) == 110.0
    assert limits.deadline(job, Status()) is None
    assert limits.deadline(workers(), Status(started=100.0)) is None


def test_a_job_wakes_for_its_deadline_and_fails_with_it() -> None:
    world = World(workers(policy=RunPolicy(deadline=10)))
    world.look(at=100.0)

    waiting = world.look(running("worker-0"), running("worker-1"), at=101.0)
    world.look(running("worker-0"), running("worker-1"), at=110.0)

    assert waiting.wake_at == 110.0
    assert world.phase() is Phase.FAILED
    assert world.status.completed == 110.0
    failed = world.status.condition(ConditionType.FAILED)
    assert failed is not None
    assert (failed.reason, failed.message) == ("PyTorchJobFailed", DEADLINE)


def test_an_earlier_timer_comes_before_the_deadline() -> None:
    world = World(workers(policy=RunPolicy(deadline=100)))
    world.look(running("worker-0"), running("worker-1"))
    world.look(crashed("worker-0", uid="a"), running("worker-1"), at=1.0)
    world.look(crashed("worker-0", uid="b"), running("worker-1"), at=2.0)

    decision = world.look(running("worker-1"), at=2.0)

    assert decision.wake_at == 3.0


def test_a_success_counts_even_if_the_deadline_passed_meanwhile() -> None:
    world = World(workers(policy=RunPolicy(deadline=10)))
    world.look(running("worker-0"), running("worker-1"))

    world.look(succeeded("worker-0"), succeeded("worker-1"), at=50.0)

    assert world.phase() is Phase.SUCCEEDED


@pytest.mark.parametrize("unit", RestartScope)
@pytest.mark.parametrize("limit", [0, 2])
def test_no_more_is_started_once_the_crashes_are_used_up(unit: RestartScope, limit: int) -> None:
    world = World(workers(2, unit=unit, policy=RunPolicy(backoff_limit=limit)))
    for crash in range(limit + 1):
        assert not world.phase().is_final
        attempt = world.status.attempt
        decision = world.look(
            crashed("worker-0", uid=f"uid-{crash}", attempt=attempt),
            running("worker-1", attempt=attempt),
            at=1000.0 * crash,
        )

    assert world.phase() is Phase.FAILED
    assert world.status.crashes == limit + 1
    assert world.status.attempt == (limit if unit is RestartScope.GANG else 0)
    assert starts(decision) == []
    failed = world.status.condition(ConditionType.FAILED)
    assert failed is not None
    assert failed.message == BACKOFF


def test_restarts_in_place_use_up_crashes_too() -> None:
    world = World(workers(2, policy=RunPolicy(backoff_limit=2)))
    world.look(running("worker-0", restarts=1), running("worker-1", restarts=1))
    assert world.phase() is Phase.RUNNING

    world.look(running("worker-0", restarts=2), running("worker-1", restarts=1), at=1.0)

    assert world.phase() is Phase.FAILED


def test_evictions_use_up_no_crashes() -> None:
    world = World(workers(2, policy=RunPolicy(backoff_limit=0)))
    for time in range(20):
        world.look(evicted("worker-0", uid=f"uid-{time}"), running("worker-1"), at=float(time))

    assert world.phase() is Phase.RESTARTING
    assert (world.status.crashes, world.status.evictions) == (0, 20)

    world.look(evicted("worker-0", uid="last"), running("worker-1"), at=100.0)

    failed = world.status.condition(ConditionType.FAILED)
    assert failed is not None
    assert failed.message == EVICTIONS


def test_a_limit_is_the_reason_that_is_given_where_the_kind_would_fail_the_job_too() -> None:
    world = World(workers(2, policy=RunPolicy(backoff_limit=0)))
    world.look(running("worker-0"), running("worker-1"))

    world.look(crashed("worker-0"), running("worker-1"), at=1.0)

    failed = world.status.condition(ConditionType.FAILED)
    assert failed is not None
    assert failed.message == BACKOFF
