"""What is left to do after the end of a job."""

from __future__ import annotations

import pytest

from bireme.core import cleanup
from bireme.model.decisions import Abandon, Event, EventType, Release, Stop
from bireme.model.job import CleanPods, Restart, RunPolicy
from bireme.model.replicas import ReplicaPhase, Waiting
from bireme.model.status import Counts, Phase
from tests.unit import build
from tests.unit.core.world import (
    World,
    crashed,
    others,
    pending,
    running,
    seen,
    stopping,
    stops,
    succeeded,
    unknown,
    workers,
)


def ended(policy: RunPolicy, *, won: bool, at: float = 100.0) -> World:
    """A job with a master and three workers of which one succeeded and one failed, and whose master ended."""
    roles = build.role("Master"), build.role("Worker", 3, restart=Restart.RECREATE)
    world = World(build.job("PyTorchJob", *roles, policy=policy))
    world.look(running("master-0"), running("worker-0"), running("worker-1"), running("worker-2"))
    master = succeeded("master-0") if won else crashed("master-0")
    world.look(master, running("worker-0"), succeeded("worker-1"), crashed("worker-2"), at=at)
    assert world.phase() is (Phase.SUCCEEDED if won else Phase.FAILED)
    return world


LEFT_AFTER_SUCCESS = (succeeded("master-0"), running("worker-0"), succeeded("worker-1"), crashed("worker-2"))
LEFT_AFTER_FAILURE = (crashed("master-0"), running("worker-0"), succeeded("worker-1"), crashed("worker-2"))
EVERYBODY = ["master-0", "worker-0", "worker-1", "worker-2"]


@pytest.mark.parametrize("won", [True, False], ids=["succeeded", "failed"])
@pytest.mark.parametrize(
    ("policy", "gone"),
    [(CleanPods.ALL, EVERYBODY), (CleanPods.RUNNING, ["worker-0"]), (CleanPods.NONE, [])],
)
def test_who_is_removed_after_the_end(policy: CleanPods, gone: list[str], won: bool) -> None:
    world = ended(RunPolicy(clean_pods=policy), won=won)

    decision = world.look(*(LEFT_AFTER_SUCCESS if won else LEFT_AFTER_FAILURE), at=101.0)

    assert stops(decision) == gone
    assert decision.events == ()


@pytest.mark.parametrize("alive", [pending("worker-0"), unknown("worker-0")], ids=lambda one: one.phase)
def test_whoever_is_alive_counts_as_running(alive: object) -> None:
    world = ended(RunPolicy(clean_pods=CleanPods.RUNNING), won=True)

    decision = world.look(alive, at=101.0)  # type: ignore[arg-type]

    assert stops(decision) == ["worker-0"]


def test_the_removal_begins_with_the_end_itself() -> None:
    world = World(workers(2, Restart.NEVER, policy=RunPolicy(clean_pods=CleanPods.ALL)))
    world.look(running("worker-0"), running("worker-1"))

    decision = world.look(crashed("worker-0"), running("worker-1"), at=1.0)

    assert stops(decision) == ["worker-0", "worker-1"]


def test_whoever_is_being_removed_is_left_to_it() -> None:
    world = ended(RunPolicy(clean_pods=CleanPods.ALL), won=True)

    decision = world.look(stopping("worker-0"), at=101.0)

    assert decision.actions == ()


def test_an_abandoned_replica_is_struck_off_under_every_policy() -> None:
    world = ended(RunPolicy(clean_pods=CleanPods.NONE), won=True)

    decision = world.look(stopping("worker-0", abandoned=True), at=101.0)

    assert decision.actions == (Abandon("mnist-worker-0", "worker-0/0"),)


def test_an_abandoned_replica_is_struck_off_once() -> None:
    world = ended(RunPolicy(clean_pods=CleanPods.ALL), won=True)

    decision = world.look(seen("worker-0", ReplicaPhase.UNKNOWN, abandoned=True), at=101.0)

    assert decision.actions == (Abandon("mnist-worker-0", "worker-0/0"),)


def test_replicas_that_outlive_a_success_get_their_time_to_linger() -> None:
    world = ended(RunPolicy(linger=30.0), won=True)

    early = world.look(running("worker-0"), at=129.0)
    late = world.look(running("worker-0"), at=130.0)
    dying = world.look(stopping("worker-0"), at=131.0)

    assert (early.actions, early.wake_at) == ((), 130.0)
    assert late.actions == (Stop("mnist-worker-0", "worker-0/0", for_good=True),)
    assert late.wake_at is None
    assert (dying.actions, dying.wake_at) == ((), None)


def test_nobody_lingers_after_a_failure() -> None:
    world = ended(RunPolicy(linger=30.0), won=False)

    decision = world.look(running("worker-0"), succeeded("worker-1"), at=100.0)

    assert stops(decision) == ["worker-0"]


def test_dead_replicas_do_not_linger_and_are_not_removed() -> None:
    world = ended(RunPolicy(linger=30.0), won=True)

    decision = world.look(succeeded("worker-1"), at=110.0)

    assert decision.wake_at is None
    assert stops(decision) == []


def test_resources_are_given_back_once_when_nobody_is_alive() -> None:
    world = ended(RunPolicy(clean_pods=CleanPods.RUNNING), won=True)

    dying = world.look(stopping("worker-0"), succeeded("worker-1"), at=101.0)
    dead = world.look(succeeded("worker-1"), at=102.0)
    released = world.look(succeeded("worker-1"), at=103.0, admission=None)

    assert others(dying) == []
    assert others(dead) == [Release()]
    assert others(released) == []


def test_a_place_in_the_queue_is_given_back_too() -> None:
    world = ended(RunPolicy(), won=False)

    decision = world.look(at=101.0, admission=Waiting(0, "waits"))

    assert decision.actions == (Release(),)


def test_a_job_that_is_over_waits_for_nothing() -> None:
    world = World(workers(policy=RunPolicy(deadline=10)))
    world.look(at=0.0, admission=Waiting(0, "needs 2 GPUs, 0 free"))
    assert world.status.waiting == "needs 2 GPUs, 0 free"

    world.look(at=10.0, admission=Waiting(0, "needs 2 GPUs, 0 free"))

    assert (world.phase(), world.status.waiting) == (Phase.FAILED, "")


def test_a_job_is_hidden_when_its_time_to_live_is_over() -> None:
    world = ended(RunPolicy(ttl=60), won=True)

    early = world.look(at=159.0, admission=None)
    assert (world.status.expired, early.wake_at) == (False, 160.0)
    late = world.look(at=160.0, admission=None)
    assert (world.status.expired, late.wake_at) == (True, None)


def test_a_hidden_job_stays_hidden_when_the_clock_is_set_back() -> None:
    world = ended(RunPolicy(ttl=60), won=True)
    world.look(at=160.0, admission=None)

    decision = world.look(at=90.0, admission=None)

    assert world.status.expired is True
    assert decision.wake_at is None


def test_the_earlier_of_two_timers_wakes() -> None:
    lingering = ended(RunPolicy(ttl=60, linger=30.0), won=True)
    expiring = ended(RunPolicy(ttl=10, linger=30.0), won=True)

    assert lingering.look(running("worker-0"), at=101.0).wake_at == 130.0
    assert expiring.look(running("worker-0"), at=101.0).wake_at == 110.0


def test_a_job_without_timers_is_not_woken() -> None:
    world = ended(RunPolicy(), won=True)

    assert world.look(running("worker-0"), at=101.0).wake_at is None
    assert world.status.expired is False


def test_a_removal_takes_the_uid_and_the_grace_that_are_meant() -> None:
    assert cleanup.removal(running("worker-0", uid="u")) == Stop("mnist-worker-0", "u", None)
    assert cleanup.removal(running("worker-0", uid="u"), grace=0.0) == Stop("mnist-worker-0", "u", 0.0)
    assert cleanup.removal(stopping("worker-0", abandoned=True)) == Abandon("mnist-worker-0", "worker-0/0")


def test_a_success_turns_those_still_active_into_succeeded() -> None:
    world = ended(RunPolicy(), won=True)

    assert world.status.replicas == {"Master": Counts(succeeded=1), "Worker": Counts(succeeded=2)}


def test_a_failure_leaves_the_counts_as_they_are() -> None:
    world = ended(RunPolicy(), won=False)

    assert world.status.replicas == {"Master": Counts(failed=1), "Worker": Counts(active=1, succeeded=1)}


def test_an_end_is_told_once() -> None:
    world = World(workers(1))
    world.look(running("worker-0"))

    first = world.look(succeeded("worker-0"), at=1.0)
    second = world.look(succeeded("worker-0"), at=2.0)

    message = "PyTorchJob default/mnist successfully completed."
    assert first.events == (Event(EventType.NORMAL, "PyTorchJobSucceeded", message),)
    assert second.events == ()


@pytest.mark.parametrize("won", [True, False], ids=["succeeded", "failed"])
def test_a_verdict_never_changes(won: bool) -> None:
    world = ended(RunPolicy(), won=won)
    before = world.status

    for replicas in ((), LEFT_AFTER_SUCCESS, LEFT_AFTER_FAILURE, (crashed("worker-0"),)):
        world.look(*replicas, at=500.0)

    assert world.status == before
