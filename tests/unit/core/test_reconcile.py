"""What is to be done about a job now: the story of a job from its first look to its last."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bireme.core.reconcile import reconcile
from bireme.model.decisions import Decision, Event, EventType
from bireme.model.job import CleanPods, Restart, RestartScope, RunPolicy
from bireme.model.replicas import Fault, Observation, Told, Waiting
from bireme.model.status import ConditionType, Counts, Phase, Status
from tests.unit import build
from tests.unit.core.world import (
    World,
    crashed,
    evicted,
    pending,
    running,
    starts,
    stops,
    succeeded,
    told,
    workers,
)


def test_a_backend_that_could_not_look_is_asked_again_and_nothing_else_happens() -> None:
    world = World(workers())
    world.look(running("worker-0"), running("worker-1"))
    before = world.status

    decision = world.look(at=7.0, complete=False)

    assert decision == Decision(before, wake_at=8.0)


def test_nothing_is_cleaned_up_on_a_view_that_is_not_complete() -> None:
    world = World(workers(policy=RunPolicy(clean_pods=CleanPods.ALL)))
    world.look(succeeded("worker-0"), succeeded("worker-1"))

    decision = world.look(succeeded("worker-0"), at=1.0, complete=False)

    assert decision.actions == ()


def test_the_first_look_says_that_the_job_is_created_and_when_it_started() -> None:
    world = World(workers())

    world.look(at=7.0, admission=None)

    (created,) = world.status.conditions
    assert (created.reason, created.message) == ("PyTorchJobCreated", "PyTorchJob mnist is created.")
    assert world.status.started == 7.0
    assert world.status.replicas == {"Worker": Counts()}
    assert world.phase() is Phase.CREATED


def test_a_job_from_the_first_look_to_the_last() -> None:
    world = World(workers())
    told_by_look = []
    for number, replicas in enumerate(
        (
            (),
            (pending("worker-0"), pending("worker-1")),
            (running("worker-0"), running("worker-1")),
            (running("worker-0"), succeeded("worker-1")),
            (succeeded("worker-0"), succeeded("worker-1")),
        )
    ):
        world.look(*replicas, at=float(number))
        told_by_look.append(told(world.status))

    assert told_by_look == [
        ["Created"],
        ["Created"],
        ["Created", "Running"],
        ["Created", "Running"],
        ["Created", "-Running", "Succeeded"],
    ]
    assert (world.status.started, world.status.completed) == (0.0, 4.0)
    assert (world.status.attempt, world.status.crashes, world.status.evictions) == (0, 0, 0)
    won = world.status.condition(ConditionType.SUCCEEDED)
    assert won is not None
    assert (won.reason, won.message) == (
        "PyTorchJobSucceeded",
        "PyTorchJob default/mnist successfully completed.",
    )


def test_a_failure_is_told_with_its_reason() -> None:
    world = World(workers(2, Restart.NEVER))
    world.look(running("worker-0"), running("worker-1"))

    decision = world.look(crashed("worker-0"), running("worker-1"), at=3.0)

    message = "PyTorchJob mnist is failed because 1 Worker replica(s) failed."
    assert Event(EventType.NORMAL, "PyTorchJobFailed", message) in decision.events
    assert told(world.status) == ["Created", "-Running", "Failed"]
    assert world.status.completed == 3.0
    assert world.status.trouble == ""


def test_a_decision_on_the_same_facts_is_the_same() -> None:
    job, status = workers(2, unit=RestartScope.GANG), Status()
    observation = Observation((crashed("worker-0"), running("worker-1")))

    assert reconcile(job, status, observation, 5.0) == reconcile(job, status, observation, 5.0)


@pytest.mark.parametrize("unit", RestartScope)
def test_a_second_look_at_the_same_facts_changes_nothing_more(unit: RestartScope) -> None:
    world = World(workers(2, unit=unit))
    world.look(running("worker-0"), running("worker-1"))
    for replicas in (
        (running("worker-0"), running("worker-1")),
        (crashed("worker-0"), running("worker-1")),
        (running("worker-1"),),
    ):
        world.look(*replicas, at=1.0)
        before = world.status

        again = world.look(*replicas, at=1.0)

        # Only the counts follow a new attempt one look later.
        assert replace(again.status, replicas=before.replicas) == before
        assert not any(event.type is EventType.WARNING for event in again.events)


def test_a_finished_job_is_asked_nothing_but_what_is_left() -> None:
    world = World(workers(policy=RunPolicy(deadline=5, backoff_limit=0)))
    world.look(succeeded("worker-0"), succeeded("worker-1"))

    decision = world.look(crashed("worker-0"), at=100.0, faults=(Fault("mnist-worker-0", "x", final=True),))

    assert world.phase() is Phase.SUCCEEDED
    assert starts(decision) == stops(decision) == []
    assert decision.wake_at is None


def test_a_finished_job_that_is_scaled_up_stays_finished() -> None:
    world = World(workers(1))
    world.look(succeeded("worker-0"))
    world.scale("worker", 3)

    assert starts(world.look(at=1.0)) == []
    assert world.phase() is Phase.SUCCEEDED


def test_a_limit_is_named_before_a_fault_and_a_fault_before_the_kinds_own_verdict() -> None:
    fault = Fault("mnist-worker-1", "no such program", final=True)
    late = World(workers(2, Restart.NEVER, policy=RunPolicy(deadline=10)))
    faulty = World(workers(2, Restart.NEVER))
    for world, now in ((late, 10.0), (faulty, 9.0)):
        world.look(running("worker-0"), running("worker-1"))
        world.look(crashed("worker-0"), at=now, faults=(fault,))

    messages = [one.status.conditions[-1].message for one in (late, faulty)]
    assert "deadline" in messages[0]
    assert messages[1] == "mnist-worker-1 cannot start: no such program"


def test_a_success_counts_although_a_worker_was_lost_with_it() -> None:
    roles = build.role("Master"), build.role("Worker", 2)
    world = World(build.job("PyTorchJob", *roles, policy=RunPolicy(backoff_limit=0)))
    world.look(running("master-0"), running("worker-0"), running("worker-1"))

    world.look(succeeded("master-0"), crashed("worker-0"), evicted("worker-1"), at=1.0)

    assert world.phase() is Phase.SUCCEEDED


def test_the_counts_follow_every_look() -> None:
    world = World(workers(3))
    world.look(running("worker-0"), pending("worker-1"), running("worker-2"))
    assert world.status.replicas == {"Worker": Counts(active=2)}

    world.look(succeeded("worker-0"), running("worker-1"), crashed("worker-2"), at=1.0)

    assert world.status.replicas == {"Worker": Counts(active=1, succeeded=1)}


def test_a_job_that_lost_its_place_in_the_queue_between_attempts_is_queued_again() -> None:
    world = World(workers(2, unit=RestartScope.GANG))
    world.look(running("worker-0"), running("worker-1"))
    world.look(crashed("worker-0"), running("worker-1"), at=1.0)

    world.look(at=2.0, admission=Waiting(1, "waits for 2 cpu"))

    assert world.phase() is Phase.QUEUED
    assert told(world.status) == ["Created", "Restarting"]


def test_a_pod_that_is_unreachable_keeps_a_work_queue_from_being_over() -> None:
    """A batch Job without completions succeeds once one pod succeeded and nobody works any more."""
    job = build.job("Job", build.role("Pod", restart=Restart.RECREATE), options={"parallelism": 2})
    world = World(job)
    world.look(running("0"), running("1"))

    world.look(succeeded("0"), pending("1"), at=1.0)
    assert not world.phase().is_final
    world.look(succeeded("0"), crashed("1"), at=2.0)

    assert world.phase() is Phase.SUCCEEDED


def test_work_that_is_on_no_disk_is_told_beside_the_success() -> None:
    world = World(workers())
    world.look(running("worker-0"), running("worker-1"))
    lost = replace(succeeded("worker-0"), told=Told(lost="saved no checkpoint: all 3 saves failed\x1b[2J"))

    decision = world.look(lost, succeeded("worker-1"), at=4.0)

    warned = Event(
        EventType.WARNING, "CheckpointsNotSaved", "mnist saved no checkpoint: all 3 saves failed [2J"
    )
    assert decision.events[0] == warned
    assert told(world.status) == ["Created", "-Running", "Succeeded"]
