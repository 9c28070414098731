"""A job that failed goes on when its user says so: with its next attempt, and its budget anew."""

from __future__ import annotations

from msgspec.structs import replace

from bireme.model.job import Job, Restart, RestartScope, RunPolicy
from bireme.model.replicas import Fault, Told
from bireme.model.status import Phase
from tests.unit.core.world import (
    World,
    at_work,
    crashed,
    running,
    starts,
    stopping,
    stops,
    succeeded,
    told,
    workers,
)


def failed(job: Job) -> World:
    world = at_work(job)
    lost = replace(crashed("worker-0"), told=Told("SyntaxError", "invalid syntax", saved=20, step=25))
    world.look(lost, running("worker-1"), at=10.0)
    assert world.phase() is Phase.FAILED
    return world


def resume(world: World, times: int = 1) -> None:
    world.job = replace(world.job, policy=replace(world.job.policy, resumes=times))


GANG = workers(
    2, Restart.NEVER, unit=RestartScope.GANG, policy=RunPolicy(backoff_limit=0, ttl=60, deadline=100)
)


def test_a_failed_job_can_never_be_resumed() -> None:
    world = failed(GANG)
    resume(world)

    decision = world.look(crashed("worker-0"), at=500.0)

    assert (world.phase(), world.status.attempt, world.status.completed) == (Phase.RESTARTING, 1, None)
    assert stops(decision) == ["worker-0"]
    assert starts(world.look(at=500.0)) == ["worker-0", "worker-1"]
    world.look(running("worker-0", attempt=1), running("worker-1", attempt=1), at=501.0)
    assert world.phase() is Phase.RUNNING
    world.look(succeeded("worker-0", attempt=1), succeeded("worker-1", attempt=1), at=502.0)
    assert told(world.status) == ["Created", "-Failed", "-Running", "Succeeded"]


def test_its_budget_and_its_time_begin_anew() -> None:
    world = failed(GANG)
    resume(world)
    world.job = replace(world.job, policy=replace(world.job.policy, backoff_limit=1))
    world.look(at=500.0)
    world.look(running("worker-0", attempt=1), running("worker-1", attempt=1), at=501.0)

    world.look(crashed("worker-0", attempt=1), running("worker-1", attempt=1), at=590.0)

    assert (world.phase(), world.status.attempt, world.status.crashes) == (Phase.RESTARTING, 2, 2)
    assert world.status.progress.saved == 20


def test_what_could_not_be_started_before_it_was_resumed_does_not_fail_it_again() -> None:
    """A backend shows a fault until the replica is removed, which may take as long as its grace."""
    world = at_work(GANG)
    fault = Fault("mnist-worker-1", "no such program", final=True, attempt=0)
    there = (running("worker-0"), stopping("worker-1"))
    world.look(*there, at=10.0, faults=(fault,))
    assert world.phase() is Phase.FAILED
    resume(world)

    world.look(*there, at=11.0, faults=(fault,))
    world.look(stopping("worker-1"), at=12.0, faults=(fault,))

    assert (world.phase(), world.status.attempt) == (Phase.RESTARTING, 1)
    assert starts(world.look(at=13.0)) == ["worker-0", "worker-1"]
    world.look(at=14.0, faults=(replace(fault, attempt=1),))
    assert world.phase() is Phase.FAILED


def test_it_fails_again_and_stays_so_until_it_is_resumed_again() -> None:
    world = failed(GANG)
    resume(world)
    world.look(at=500.0)
    world.look(running("worker-0", attempt=1), running("worker-1", attempt=1), at=501.0)
    world.look(crashed("worker-0", attempt=1), running("worker-1", attempt=1), at=502.0)
    assert world.phase() is Phase.FAILED
    assert [one for one in told(world.status) if "Failed" in one] == ["Failed"]

    assert starts(world.look(at=503.0)) == []
    resume(world, 2)
    world.look(at=504.0)
    assert starts(world.look(at=504.0)) == ["worker-0", "worker-1"]


def test_replicas_that_are_restarted_one_by_one_get_their_budget_anew_too() -> None:
    world = at_work(workers(2, Restart.ON_FAILURE, policy=RunPolicy(backoff_limit=0)))
    world.look(crashed("worker-0"), running("worker-1"), at=10.0)
    assert world.phase() is Phase.FAILED
    resume(world)

    world.look(at=20.0)
    world.look(running("worker-0", attempt=1), running("worker-1", attempt=1), at=21.0)

    assert (world.phase(), world.status.attempt) == (Phase.RUNNING, 1)


def test_what_succeeded_or_runs_is_left_alone() -> None:
    world = at_work(GANG)
    resume(world)
    world.look(running("worker-0"), running("worker-1"), at=2.0)
    assert (world.phase(), world.status.attempt) == (Phase.RUNNING, 0)

    world.look(succeeded("worker-0"), succeeded("worker-1"), at=3.0)
    resume(world, 2)

    assert starts(world.look(at=4.0)) == []
    assert world.phase() is Phase.SUCCEEDED


def test_a_resumption_from_before_the_failure_is_spent() -> None:
    world = at_work(GANG)
    resume(world)
    world.look(running("worker-0"), running("worker-1"), at=2.0)

    world.look(crashed("worker-0"), running("worker-1"), at=10.0)

    assert starts(world.look(at=11.0)) == []
    assert world.phase() is Phase.FAILED
