"""How is a job put aside, and how does it come back."""

from __future__ import annotations

from bireme.model.decisions import Abandon, Event, EventType, Release, Start, Stop
from bireme.model.job import CleanPods, Job, Restart, RestartScope, RunPolicy
from bireme.model.replicas import ReplicaPhase, Waiting
from bireme.model.status import ConditionType, Counts, Phase
from tests.unit import build
from tests.unit.core.world import (
    World,
    crashed,
    others,
    running,
    seen,
    starts,
    stopping,
    stops,
    succeeded,
    told,
    workers,
)

SUSPENDED = Event(EventType.NORMAL, "PyTorchJobSuspended", "PyTorchJob mnist is suspended.")
RESUMED = Event(EventType.NORMAL, "PyTorchJobResumed", "PyTorchJob mnist is resumed.")


def batch(completions: int = 2) -> Job:
    return build.job(
        "Job",
        build.role("Pod", restart=Restart.RECREATE),
        options={"parallelism": completions, "completions": completions},
    )


def test_a_job_that_is_created_suspended_does_not_start() -> None:
    world = World(workers(policy=RunPolicy(suspend=True)))

    decision = world.look(at=5.0, admission=None)

    condition = world.status.condition(ConditionType.SUSPENDED)
    assert condition is not None
    assert decision.actions == ()
    assert decision.events == (SUSPENDED,)
    assert told(world.status) == ["Created", "Suspended"]
    assert (condition.reason, condition.message) == ("PyTorchJobSuspended", "PyTorchJob mnist is suspended.")
    assert world.status.started is None
    assert world.status.replicas == {"Worker": Counts()}
    assert world.phase() is Phase.SUSPENDED


def test_its_first_start_is_its_first_attempt() -> None:
    world = World(workers(policy=RunPolicy(suspend=True)))
    world.look(at=5.0, admission=None)
    world.suspend(False)

    decision = world.look(at=9.0)

    assert (world.status.attempt, world.status.started) == (0, 9.0)
    assert starts(decision) == ["worker-0", "worker-1"]
    assert told(world.status) == ["Created", "-Suspended"]


def test_suspending_stops_everything_whatever_the_clean_up_policy_says() -> None:
    world = World(workers(3, policy=RunPolicy(clean_pods=CleanPods.NONE)))
    world.look(running("worker-0"), running("worker-1"), running("worker-2"), at=1.0)
    world.suspend()

    decision = world.look(running("worker-0"), succeeded("worker-1"), crashed("worker-2"), at=5.0)

    assert decision.actions == tuple(
        Stop(f"mnist-worker-{i}", f"worker-{i}/0", for_good=True) for i in range(3)
    )
    assert decision.events == (SUSPENDED,)
    assert told(world.status) == ["Created", "-Running", "Suspended"]
    assert world.status.conditions[1].reason == "PyTorchJobSuspended"
    assert world.status.conditions[1].changed == 5.0
    assert world.status.started == 1.0
    assert world.status.replicas["Worker"].active == 0


def test_a_job_whose_beginning_was_never_written_down_goes_on_with_its_next_attempt() -> None:
    world = World(workers(2))
    world.suspend()
    world.look(running("worker-0"), running("worker-1"), at=1.0)
    world.suspend(False)

    decision = world.look(stopping("worker-0"), stopping("worker-1"), at=2.0)

    assert (world.status.attempt, world.status.evictions) == (1, 0)
    assert starts(decision) == []


def test_suspending_a_restarting_job_denies_that_it_restarts() -> None:
    world = World(workers())
    world.look(running("worker-0"), running("worker-1"))
    world.look(crashed("worker-0"), running("worker-1"), at=1.0)
    world.suspend()

    world.look(running("worker-1"), at=2.0)

    assert told(world.status) == ["Created", "-Restarting", "Suspended"]


def test_while_suspended_nothing_is_said_or_counted_twice() -> None:
    world = World(workers())
    world.look(running("worker-0"), running("worker-1"))
    world.suspend()
    world.look(running("worker-0"), running("worker-1"), at=1.0)
    before = world.status

    dying = world.look(stopping("worker-0"), crashed("worker-1", 143), at=2.0)
    gone = world.look(at=3.0, admission=None)

    assert dying.events == gone.events == ()
    assert stops(dying) == ["worker-1"]
    assert gone.actions == ()
    assert world.status == before
    assert (world.status.crashes, world.status.evictions) == (0, 0)


def test_resources_are_given_back_when_nobody_is_alive_any_more() -> None:
    world = World(workers())
    world.look(running("worker-0"), running("worker-1"))
    world.suspend()

    alive = world.look(running("worker-0"), running("worker-1"), at=1.0)
    dying = world.look(stopping("worker-0"), succeeded("worker-1"), at=2.0)
    gone = world.look(at=3.0)
    released = world.look(at=4.0, admission=None)

    assert others(alive) == []
    assert others(dying) == []
    assert others(gone) == [Release()]
    assert others(released) == []


def test_a_queued_job_that_is_suspended_leaves_the_queue() -> None:
    world = World(workers())
    world.look(admission=Waiting(0, "waits for 2 cpu"))
    assert world.phase() is Phase.QUEUED
    world.suspend()

    decision = world.look(at=1.0, admission=Waiting(0, "waits for 2 cpu"))

    assert decision.actions == (Release(),)
    assert world.phase() is Phase.SUSPENDED
    assert world.status.waiting == ""


def test_an_abandoned_replica_is_struck_off() -> None:
    world = World(workers())
    world.suspend()

    decision = world.look(stopping("worker-0", abandoned=True), stopping("worker-1"))

    assert decision.actions == (Abandon("mnist-worker-0", "worker-0/0"),)


def test_resuming_starts_the_next_attempt_free_of_budget() -> None:
    world = World(workers(policy=RunPolicy(backoff_limit=0)))
    world.look(running("worker-0"), running("worker-1"))
    world.suspend()
    world.look(running("worker-0"), running("worker-1"), at=1.0)
    world.suspend(False)

    waiting = world.look(stopping("worker-0"), at=8.0)
    decision = world.look(at=9.0)

    assert starts(waiting) == []
    assert waiting.events == (RESUMED,)
    assert starts(decision) == ["worker-0", "worker-1"]
    assert all(one.attempt == 1 for one in decision.actions if isinstance(one, Start))
    assert (world.status.crashes, world.status.evictions) == (0, 0)
    assert world.status.started == 8.0


def test_the_conditions_of_a_job_that_was_resumed_and_runs() -> None:
    world = World(workers())
    world.look(running("worker-0"), running("worker-1"), at=1.0)
    world.suspend()
    world.look(running("worker-0"), running("worker-1"), at=2.0)
    world.suspend(False)
    world.look(at=3.0)
    assert told(world.status) == ["Created", "-Running", "-Suspended"]

    world.look(running("worker-0", attempt=1), running("worker-1", attempt=1), at=4.0)

    _, suspended, run = world.status.conditions
    assert told(world.status) == ["Created", "-Suspended", "Running"]
    assert (suspended.reason, suspended.message) == ("PyTorchJobResumed", "PyTorchJob mnist is resumed.")
    assert suspended.changed == 3.0
    assert (run.reason, run.changed) == ("PyTorchJobRunning", 4.0)


def test_a_deadline_counts_from_the_resumption_and_not_while_suspended() -> None:
    world = World(workers(policy=RunPolicy(deadline=10)))
    world.look(running("worker-0"), running("worker-1"))
    world.suspend()

    held = world.look(at=100.0, admission=None)
    world.suspend(False)
    world.look(at=200.0)
    resumed = world.look(at=201.0)

    assert held.wake_at is None
    assert resumed.wake_at == 210.0
    assert not world.phase().is_final


def test_resuming_forgets_back_offs_and_keeps_budgets() -> None:
    world = World(workers(2, unit=RestartScope.GANG))
    for attempt in range(3):
        world.look(crashed("worker-0", attempt=attempt), running("worker-1", attempt=attempt))
    world.suspend()
    world.look(at=1.0)
    world.suspend(False)

    decision = world.look(at=2.0)

    assert world.status.retries == {}
    assert world.status.crashes == 3
    assert starts(world.look(at=2.0)) == ["worker-0", "worker-1"]
    assert decision.status.attempt == 4


def test_a_job_starts_over_when_it_is_resumed_although_some_were_done() -> None:
    world = World(workers())
    world.look(running("worker-0"), running("worker-1"))
    world.look(succeeded("worker-0"), running("worker-1"), at=1.0)
    world.suspend()
    world.look(succeeded("worker-0"), running("worker-1"), at=2.0)
    world.suspend(False)

    world.look(at=3.0)

    assert starts(world.look(at=4.0)) == ["worker-0", "worker-1"]


def test_independent_replicas_that_were_done_before_the_suspension_stay_done() -> None:
    world = World(batch())
    world.look(running("0"), running("1"))
    world.suspend()
    world.look(succeeded("0"), running("1"), at=1.0)
    world.suspend(False)

    world.look(at=2.0)

    assert world.status.done == ("mnist-0",)
    assert starts(world.look(at=3.0)) == ["1"]


def test_independent_replicas_that_finish_while_nobody_stops_them_stay_done() -> None:
    """The engine died between the suspension and its stops, and the user resumed the job meanwhile."""
    world = World(batch())
    world.look(running("0"), running("1"))
    world.suspend()
    world.look(running("0"), running("1"), at=1.0)
    world.suspend(False)

    world.look(succeeded("0"), running("1"), at=2.0)

    assert world.status.done == ("mnist-0",)
    assert starts(world.look(at=3.0)) == ["1"]


def test_a_replica_that_ends_without_error_because_of_the_suspension_is_not_done() -> None:
    world = World(batch())
    world.look(running("0"), running("1"))
    world.suspend()
    world.look(running("0"), running("1"), at=1.0)

    world.look(seen("0", ReplicaPhase.SUCCEEDED, stopping=True), stopping("1"), at=2.0)

    assert world.status.done == ()


def test_a_finished_job_cannot_be_suspended() -> None:
    world = World(workers())
    world.look(succeeded("worker-0"), succeeded("worker-1"))
    world.suspend()

    world.look(at=1.0)

    assert world.phase() is Phase.SUCCEEDED
    assert world.status.condition(ConditionType.SUSPENDED) is None


def test_suspending_keeps_what_was_counted_and_says_that_nobody_is_active() -> None:
    world = World(workers(3))
    world.look(running("worker-0"), running("worker-1"), running("worker-2"))
    world.look(succeeded("worker-0"), running("worker-1"), running("worker-2"), at=1.0)
    assert world.status.replicas == {"Worker": Counts(active=2, succeeded=1)}
    world.suspend()

    world.look(succeeded("worker-0"), running("worker-1"), running("worker-2"), at=2.0)

    assert world.status.replicas == {"Worker": Counts(active=0, succeeded=1)}
