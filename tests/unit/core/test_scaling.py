"""A gang whose size is changed starts again at its new size: nobody joins, or leaves, a gang that runs."""

from __future__ import annotations

from msgspec.structs import replace

from bireme.model.decisions import Admit, Stop
from bireme.model.job import Restart, RestartScope, RunPolicy
from bireme.model.replicas import Told
from bireme.model.status import ConditionType, Phase
from tests.unit.core.world import (
    World,
    at_work,
    crashed,
    running,
    starts,
    stops,
    succeeded,
    workers,
)

GANG = workers(2, Restart.NEVER, unit=RestartScope.GANG, policy=RunPolicy(backoff_limit=0))
BOTH = (running("worker-0"), running("worker-1"))


def test_a_rank_that_scaling_adds_can_never_join_the_gang_that_runs() -> None:
    world = at_work(GANG)
    world.scale("worker", 3)

    decision = world.look(*BOTH, at=10.0)

    assert starts(decision) == []
    assert sorted(stops(decision)) == ["worker-0", "worker-1"]
    assert (world.status.attempt, world.phase()) == (1, Phase.RESTARTING)
    assert starts(world.look(at=11.0)) == ["worker-0", "worker-1", "worker-2"]


def test_a_gang_that_shrinks_starts_anew_too() -> None:
    world = at_work(GANG)
    world.scale("worker", 1)

    decision = world.look(*BOTH, at=10.0)

    assert sorted(stops(decision)) == ["worker-0", "worker-1"]
    assert starts(world.look(at=11.0)) == ["worker-0"]


def test_scaling_costs_neither_budget_nor_back_off_and_leaves_time_to_save() -> None:
    world = at_work(GANG)
    world.scale("worker", 3)

    decision = world.look(*BOTH, at=10.0)

    assert (world.status.crashes, world.status.evictions, world.status.retries) == (0, 0, {})
    assert [one.grace for one in decision.actions if isinstance(one, Stop)] == [None, None]
    condition = world.status.condition(ConditionType.RESTARTING)
    assert condition is not None
    assert condition.message == "job mnist is restarting because it was scaled: worker from 2 to 3."
    assert next(one.reason for one in decision.events) == "PyTorchJobScaled"


def test_the_end_of_those_who_leave_is_nobodys_crash() -> None:
    world = at_work(GANG)
    world.scale("worker", 3)
    world.look(*BOTH, at=10.0)

    world.look(crashed("worker-0", 143), at=11.0)

    assert (world.status.crashes, world.status.attempt) == (0, 1)


def test_a_gang_that_is_scaled_there_and_back_while_it_leaves_starts_once() -> None:
    world = at_work(GANG)
    world.scale("worker", 1)
    world.look(*BOTH, at=10.0)
    world.scale("worker", 2)

    world.look(crashed("worker-0", 143), at=11.0)
    after = world.look(at=12.0)

    assert (world.status.attempt, world.status.crashes) == (1, 0)
    assert starts(after) == ["worker-0", "worker-1"]


def test_what_has_not_begun_is_only_asked_for_anew() -> None:
    world = World(GANG)
    world.look(at=0.0, admission=None)
    world.scale("worker", 3)

    decision = world.look(at=1.0, admission=None)

    assert world.status.attempt == 0
    (asked,) = [one for one in decision.actions if isinstance(one, Admit)]
    assert len(asked.demands) == 3


def test_whoever_is_done_need_not_be_done_again_by_a_smaller_gang() -> None:
    world = at_work(GANG)
    world.look(succeeded("worker-0"), running("worker-1"), at=5.0)
    world.scale("worker", 1)

    world.look(succeeded("worker-0"), running("worker-1"), at=10.0)

    assert world.phase() is Phase.SUCCEEDED


def test_replicas_that_are_restarted_one_by_one_are_joined_by_more() -> None:
    world = at_work(workers(2))
    world.scale("worker", 3)

    decision = world.look(*BOTH, at=10.0)

    assert (starts(decision), stops(decision), world.status.attempt) == (["worker-2"], [], 0)


def test_an_error_at_the_old_size_is_not_the_first_of_two_at_the_new_one() -> None:
    world = at_work(workers(2, Restart.NEVER, unit=RestartScope.GANG, policy=RunPolicy(backoff_limit=3)))
    told = Told("ValueError", "batch does not divide", "train.py:3")
    world.look(replace(crashed("worker-1"), told=told), running("worker-0"), at=10.0)
    world.look(at=10.0)
    world.look(running("worker-0", attempt=1), running("worker-1", attempt=1), at=10.0)
    world.scale("worker", 3)
    world.look(running("worker-0", attempt=1), running("worker-1", attempt=1), at=11.0)
    world.look(at=12.0)

    world.look(replace(crashed("worker-1", attempt=2), told=told), running("worker-0", attempt=2), at=20.0)

    assert (world.phase(), world.status.attempt) == (Phase.RESTARTING, 3)
