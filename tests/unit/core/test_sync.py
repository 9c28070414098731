"""Who is missing and who is too many."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bireme.model.decisions import Abandon, Event, EventType, Start, Stop
from bireme.model.job import Restart, RestartScope, RunPolicy
from bireme.model.replicas import Address, Addresses, Granted
from bireme.model.status import Phase
from tests.unit import build
from tests.unit.core.world import (
    World,
    busy,
    crashed,
    evicted,
    granted,
    pending,
    running,
    starts,
    stopping,
    stops,
    succeeded,
    told,
    unknown,
    workers,
)

MPI = build.job(
    "MPIJob",
    build.role("Launcher", restart=Restart.ON_FAILURE),
    build.role("Worker", 2, restart=Restart.ON_FAILURE),
)


# Starting.


def test_a_start_is_wired_for_the_addresses_that_were_granted() -> None:
    world = busy(1)
    book = Addresses(book={"mnist-worker-0": Address("127.0.0.1", {"pytorchjob-port": 41000})})

    decision = world.look(admission=Granted(0, frozenset({"mnist-worker-0"}), book))

    (start,) = decision.actions
    assert isinstance(start, Start)
    assert (start.replica, start.role, start.index, start.attempt) == ("mnist-worker-0", "worker", 0, 0)
    assert (start.restarts_in_place, start.restarts_always, start.main) == (True, False, "main")


def test_only_the_missing_are_started() -> None:
    world = World(workers(4))

    decision = world.look(pending("worker-0"), running("worker-2"), unknown("worker-3"))

    assert starts(decision) == ["worker-1"]


def test_who_is_done_is_never_started_again() -> None:
    world = World(workers())
    world.look(succeeded("worker-0"), running("worker-1"))

    decision = world.look(running("worker-1"), at=1.0)

    assert decision.actions == ()


def test_starts_are_told_once_for_each_role() -> None:
    world = World(build.job("TFJob", build.role("Master"), build.role("Worker", 10)))

    decision = world.look()

    names = ", ".join(f"mnist-worker-{index}" for index in range(8))
    assert decision.events == (
        Event(EventType.NORMAL, "SuccessfulCreatePod", "Created pod: mnist-master-0"),
        Event(EventType.NORMAL, "SuccessfulCreatePod", f"Created pods: {names} and 2 more"),
    )


def test_others_start_when_the_one_whom_they_look_up_has_its_address() -> None:
    world = World(build.job("PyTorchJob", build.role("Master"), build.role("Worker", 2)))

    first = world.look()
    placed = world.look(pending("master-0"), at=1.0)
    found = world.look(replace(pending("master-0"), address="10.0.0.7"), at=2.0)

    assert starts(first) == ["master-0"]
    assert starts(placed) == []
    assert starts(found) == ["worker-0", "worker-1"]


def test_all_start_at_once_where_they_are_placed_together() -> None:
    job = build.job("PyTorchJob", build.role("Master", 1), build.role("Worker", 2))

    decision = World(job).look(admission=replace(granted(job), together=True))

    assert starts(decision) == ["master-0", "worker-0", "worker-1"]


def test_all_start_at_once_where_addresses_are_given() -> None:
    job = build.job("PyTorchJob", build.role("Master"), build.role("Worker", 1))
    world = World(job)
    names = frozenset({"mnist-master-0", "mnist-worker-0"})

    decision = world.look(admission=Granted(0, names, build.book(job)))

    assert starts(decision) == ["master-0", "worker-0"]


@pytest.mark.parametrize(
    ("count", "end"),
    [(8, "mnist-worker-6, mnist-worker-7"), (9, "mnist-worker-6, mnist-worker-7 and 1 more")],
)
def test_eight_names_are_told_in_full(count: int, end: str) -> None:
    decision = World(workers(count)).look()

    assert decision.events[0].message.endswith(end)


def test_a_role_waits_until_those_before_it_are_ready() -> None:
    world = World(MPI)

    first = world.look()
    half = world.look(running("worker-0"), pending("worker-1"), at=1.0)
    ready = world.look(running("worker-0"), running("worker-1"), at=2.0)

    assert starts(first) == ["worker-0", "worker-1"]
    assert starts(half) == []
    assert starts(ready) == ["launcher"]


def test_a_role_does_not_wait_for_those_who_are_leaving() -> None:
    world = World(MPI)
    world.look()

    decision = world.look(running("worker-0"), replace(stopping("worker-1"), ready=True), at=1.0)

    assert starts(decision) == []


def test_files_follow_those_who_are_ready() -> None:
    world = World(MPI)
    world.look()

    none = world.look(pending("worker-0"), pending("worker-1"), at=1.0)
    one = world.look(running("worker-0"), replace(running("worker-1"), stopping=True), at=2.0)

    def text(decision_files: tuple[object, ...]) -> str:
        return str([file for file in decision_files if "discover" in str(file)])

    assert "mnist-worker-0" not in text(none.files)
    assert "mnist-worker-0" in text(one.files)
    assert "mnist-worker-1" not in text(one.files)


# Removing.


def test_scaling_up_starts_the_new_ones_alone() -> None:
    world = World(workers(2))
    world.look(running("worker-0"), running("worker-1"))
    world.scale("worker", 4)

    decision = world.look(running("worker-0"), running("worker-1"), at=1.0)

    assert starts(decision) == ["worker-2", "worker-3"]
    assert stops(decision) == []
    assert world.status.attempt == 0


def test_scaling_down_removes_the_highest_numbers_and_counts_no_loss() -> None:
    world = World(workers(4))
    world.look(*(running(f"worker-{index}") for index in range(4)))
    world.scale("worker", 2)

    decision = world.look(*(running(f"worker-{index}") for index in range(4)), at=1.0)
    dying = world.look(running("worker-0"), running("worker-1"), stopping("worker-3"), at=2.0)
    gone = world.look(running("worker-0"), running("worker-1"), at=3.0)

    assert decision.actions == (
        Stop("mnist-worker-2", "worker-2/0", for_good=True),
        Stop("mnist-worker-3", "worker-3/0", for_good=True),
    )
    assert Event(EventType.NORMAL, "SuccessfulDeletePod", "Deleted pods: mnist-worker-2, mnist-worker-3") in (
        decision.events
    )
    assert dying.actions == gone.actions == ()
    assert (world.status.crashes, world.status.evictions) == (0, 0)


def test_a_gang_is_scaled_without_a_new_attempt() -> None:
    world = World(workers(3, unit=RestartScope.GANG))
    world.look(*(running(f"worker-{index}") for index in range(3)))
    world.scale("worker", 2)

    world.look(*(running(f"worker-{index}") for index in range(3)), at=1.0)
    world.look(running("worker-0"), running("worker-1"), crashed("worker-2"), at=2.0)

    assert (world.status.attempt, world.status.crashes) == (0, 0)


def test_one_that_was_scaled_away_comes_back_after_it_is_gone() -> None:
    world = World(workers(2))
    world.look(running("worker-0"), running("worker-1"))
    world.scale("worker", 1)
    world.look(running("worker-0"), running("worker-1"), at=1.0)
    world.scale("worker", 2)

    dying = world.look(running("worker-0"), stopping("worker-1"), at=2.0)
    gone = world.look(running("worker-0"), at=3.0)

    assert starts(dying) == []
    assert starts(gone) == ["worker-1"]
    assert (world.status.crashes, world.status.evictions) == (0, 0)


def test_survivors_of_a_lost_gang_are_killed_at_once() -> None:
    world = World(workers(2, unit=RestartScope.GANG))
    world.look(running("worker-0"), running("worker-1"))

    decision = world.look(crashed("worker-0"), running("worker-1"), at=1.0)

    assert decision.actions == (
        Stop("mnist-worker-0", "worker-0/0", grace=0.0),
        Stop("mnist-worker-1", "worker-1/0", grace=0.0),
    )


def test_a_failed_replica_is_cleared_away_with_its_own_grace() -> None:
    world = World(workers(2))
    world.look(running("worker-0"), running("worker-1"))

    decision = world.look(evicted("worker-0"), running("worker-1"), at=1.0)

    assert decision.actions == (Stop("mnist-worker-0", "worker-0/0", None),)


def test_an_attempt_after_one_that_nobody_could_end_has_a_rendezvous_of_its_own() -> None:
    world = World(workers(2, unit=RestartScope.GANG))
    world.look(running("worker-0"), running("worker-1"))
    world.look(running("worker-0"), stopping("worker-1"), at=1.0)

    world.look(stopping("worker-0"), stopping("worker-1", abandoned=True), at=2.0)

    assert (world.status.attempt, world.status.fence) == (1, 1)


def test_an_attempt_after_one_that_was_seen_gone_keeps_its_ports() -> None:
    world = World(workers(2, unit=RestartScope.GANG))
    world.look(running("worker-0"), running("worker-1"))
    world.look(crashed("worker-0"), running("worker-1"), at=1.0)

    world.look(at=2.0)

    assert (world.status.attempt, world.status.fence) == (1, 0)


def test_a_replica_whose_node_is_lost_is_struck_off_and_replaced() -> None:
    world = World(workers(2))
    world.look(running("worker-0"), running("worker-1"))

    lost = stopping("worker-0", abandoned=True)
    decision = world.look(lost, running("worker-1"), at=1.0)
    again = world.look(lost, running("worker-1"), at=2.0)
    gone = world.look(running("worker-1"), at=3.0)

    assert decision.actions == again.actions == (Abandon("mnist-worker-0", "worker-0/0"),)
    assert starts(gone) == ["worker-0"]
    assert world.status.evictions == 1


def test_a_replica_behind_a_partition_is_waited_for() -> None:
    world = World(workers(2))
    world.look(running("worker-0"), running("worker-1"))

    decision = world.look(unknown("worker-0"), running("worker-1"), at=1.0)

    assert decision.actions == ()
    assert told(world.status) == ["Created", "Running"]


# Being complete.


def test_a_job_runs_when_all_that_it_wants_is_there() -> None:
    world = World(workers(2))
    world.look()

    world.look(running("worker-0"), at=1.0)
    assert told(world.status) == ["Created"]
    world.look(running("worker-0"), pending("worker-1"), at=2.0)

    assert told(world.status) == ["Created", "Running"]


def test_a_job_that_is_complete_again_with_the_help_of_those_who_are_done_runs() -> None:
    world = World(workers(3, policy=RunPolicy()))
    world.look(succeeded("worker-0"), running("worker-1"), running("worker-2"))
    world.look(crashed("worker-1"), running("worker-2"), at=1.0)
    assert world.phase() is Phase.RESTARTING

    world.look(running("worker-1", uid="new"), running("worker-2"), at=2.0)

    assert world.phase() is Phase.RUNNING


def test_a_job_that_waits_for_a_failed_or_leaving_replica_still_restarts() -> None:
    world = World(workers(2))
    world.look(running("worker-0"), running("worker-1"))
    world.look(crashed("worker-0"), running("worker-1"), at=1.0)

    world.look(crashed("worker-0"), running("worker-1"), at=2.0)
    assert world.phase() is Phase.RESTARTING
    world.look(stopping("worker-0", uid="new"), running("worker-1"), at=3.0)

    assert world.phase() is Phase.RESTARTING
