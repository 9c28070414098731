"""How long do those wait who are to be replaced."""

from __future__ import annotations

import pytest

from bireme.model.decisions import Start
from bireme.model.job import RestartScope
from bireme.model.status import Retry
from tests.unit.core.world import (
    at_work,
    crashed,
    evicted,
    running,
    starts,
    workers,
)


def test_the_first_replacement_comes_at_once_and_later_ones_wait_longer_and_longer() -> None:
    world = at_work(workers())
    waited = []
    for failures in range(1, 6):
        now = 100.0 * failures
        world.look(crashed("worker-0", uid=f"uid-{failures}"), running("worker-1"), at=now)
        decision = world.look(running("worker-1"), at=now)
        waited.append((decision.wake_at or now) - now)
        assert (starts(decision) == ["worker-0"]) is (waited[-1] == 0.0)

        due = world.look(running("worker-1"), at=now + waited[-1])
        assert starts(due) == ["worker-0"]

    assert waited == [0.0, 1.0, 2.0, 4.0, 8.0]
    assert world.status.retries["mnist-worker-0"] == Retry(5, 508.0)


def test_an_evicted_replica_is_replaced_at_once_however_often_it_failed() -> None:
    world = at_work(workers())
    for failures in range(4):
        world.look(crashed("worker-0", uid=f"uid-{failures}"), running("worker-1"), at=10.0)

    world.look(evicted("worker-0", uid="last"), running("worker-1"), at=100.0)

    assert world.status.retries["mnist-worker-0"] == Retry(4, 100.0)


@pytest.mark.parametrize(("lived", "failures"), [(599.0, 4), (600.0, 1)])
@pytest.mark.parametrize("unit", RestartScope)
def test_ten_healthy_minutes_set_a_back_off_back(unit: RestartScope, lived: float, failures: int) -> None:
    world = at_work(workers(2, unit=unit))
    for crash in range(3):
        attempt = world.status.attempt
        world.look(crashed("worker-0", uid=f"{crash}", attempt=attempt), running("worker-1", attempt=attempt))
    (before,) = world.status.retries.values()

    attempt = world.status.attempt
    world.look(
        crashed("worker-0", uid="last", attempt=attempt),
        running("worker-1", attempt=attempt),
        at=before.not_before + lived,
    )

    (after,) = world.status.retries.values()
    assert (before.failures, after.failures) == (3, failures)
    assert world.status.crashes == 4


def test_each_replica_has_a_back_off_of_its_own() -> None:
    world = at_work(workers())
    world.look(crashed("worker-0", uid="a"), running("worker-1"), at=10.0)
    world.look(crashed("worker-0", uid="b"), crashed("worker-1"), at=20.0)

    decision = world.look(at=20.0)

    assert starts(decision) == ["worker-1"]
    assert decision.wake_at == 21.0


def test_a_gang_waits_as_a_whole() -> None:
    world = at_work(workers(2, unit=RestartScope.GANG))
    world.look(crashed("worker-0"), running("worker-1"), at=10.0)
    world.look(running("worker-0", attempt=1), running("worker-1", attempt=1), at=11.0)
    world.look(crashed("worker-0", attempt=1), running("worker-1", attempt=1), at=20.0)

    early = world.look(at=20.5)
    due = world.look(at=21.0)

    assert world.status.retries == {"": Retry(2, 21.0)}
    assert starts(early) == []
    assert early.wake_at == 21.0
    assert starts(due) == ["worker-0", "worker-1"]
    assert [one.attempt for one in due.actions if isinstance(one, Start)] == [2, 2]


def test_an_evicted_gang_starts_at_once() -> None:
    world = at_work(workers(2, unit=RestartScope.GANG))
    for attempt in range(3):
        world.look(crashed("worker-0", attempt=attempt), running("worker-1", attempt=attempt), at=10.0)

    world.look(evicted("worker-0", attempt=3), at=100.0)

    assert world.status.retries == {"": Retry(3, 100.0)}
    assert (world.status.attempt, world.status.crashes, world.status.evictions) == (4, 3, 1)
