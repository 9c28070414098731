"""Who is missing and who is too many."""

from __future__ import annotations

from msgspec.structs import replace

from bireme.model.decisions import Abandon, Admit, Demand, Event, EventType, Start, Stop
from bireme.model.job import Kind, Restart, RunPolicy, Unit
from bireme.model.pods import Resources
from bireme.model.replicas import Address, Addresses, Fault, Granted, Waiting
from bireme.model.status import ConditionType, Phase, Retry
from tests.unit import build
from tests.unit.core.world import (
    World,
    crashed,
    evicted,
    granted,
    others,
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

ONE_CPU = Resources(cpu=1000)
MPI = build.job(
    Kind.MPI,
    build.role("Launcher", restart=Restart.ON_FAILURE),
    build.role("Worker", 2, restart=Restart.ON_FAILURE),
)


def busy(count: int = 2, unit: Unit = Unit.REPLICA) -> World:
    """A job whose workers have a port and claim a cpu each."""
    one = build.container("train", ports={"pytorchjob-port": 23456}, requests=ONE_CPU)
    role = build.role("Worker", count, one, restart=Restart.ON_FAILURE)
    return World(build.job(Kind.PYTORCH, role, unit=unit))


def demand(index: int, resources: Resources = ONE_CPU) -> Demand:
    return Demand(f"mnist-worker-{index}", resources, ("pytorchjob-port",))


# Admission.


def test_a_job_asks_for_all_that_it_needs_before_it_starts_anything() -> None:
    world = busy()

    decision = world.look(at=5.0, admission=None)

    assert decision.actions == (Admit(0, (demand(0), demand(1))),)
    assert decision.wake_at == 6.0
    assert world.phase() is Phase.CREATED


def test_a_job_that_waits_for_resources_is_queued_and_says_why() -> None:
    world = busy()

    decision = world.look(at=5.0, admission=Waiting(0, "waits for 2 cpu, 1 is free"))

    assert world.phase() is Phase.QUEUED
    assert world.status.waiting == "waits for 2 cpu, 1 is free"
    assert decision.actions == (Admit(0, (demand(0), demand(1))),)
    assert decision.wake_at == 6.0


def test_a_job_starts_as_soon_as_it_is_admitted() -> None:
    world = busy()
    world.look(admission=Waiting(0, "waits"))

    decision = world.look(at=9.0)

    assert starts(decision) == ["worker-0", "worker-1"]
    assert world.status.waiting == ""
    assert world.phase() is Phase.CREATED


def test_an_admission_of_another_attempt_is_none() -> None:
    world = busy(unit=Unit.GANG)
    world.look(running("worker-0"), running("worker-1"))
    world.look(crashed("worker-0"), running("worker-1"), at=1.0)

    decision = world.look(at=2.0, admission=granted(world.job, attempt=0))

    assert decision.actions == (Admit(1, (demand(0), demand(1))),)


def test_a_gang_that_is_admitted_in_part_does_not_start() -> None:
    world = busy(unit=Unit.GANG)

    decision = world.look(admission=Granted(0, frozenset({"mnist-worker-0"})))

    assert starts(decision) == []
    assert others(decision) == [Admit(0, (demand(0), demand(1)))]


def test_a_job_that_needs_nobody_asks_for_nothing() -> None:
    world = busy()
    world.look(running("worker-0"), running("worker-1"))

    decision = world.look(running("worker-0"), running("worker-1"), at=1.0, admission=None)

    assert decision.actions == ()


def test_a_running_job_that_wants_more_is_not_queued() -> None:
    world = busy()
    world.look(running("worker-0"), running("worker-1"))
    world.scale("worker", 3)

    decision = world.look(
        running("worker-0"), running("worker-1"), at=1.0, admission=Waiting(0, "waits for 1 cpu")
    )

    assert others(decision) == [Admit(0, (demand(0), demand(1), demand(2)))]
    assert decision.wake_at == 2.0
    assert world.status.waiting == ""
    assert world.phase() is Phase.RUNNING


def test_who_is_done_keeps_its_address_and_claims_nothing() -> None:
    world = busy()
    world.look(succeeded("worker-0"), running("worker-1"))

    decision = world.look(succeeded("worker-0"), at=1.0, admission=None)

    idle = demand(0, Resources(cpu=0, memory=0))
    assert world.status.attempt == 1
    world.status = replace(world.status, done=("mnist-worker-0",))
    decision = world.look(at=2.0, admission=None)
    assert others(decision) == [Admit(1, (idle, demand(1)))]


def test_who_is_done_and_has_no_address_is_not_asked_for() -> None:
    job = build.job(
        Kind.BATCH,
        build.role("Pod", restart=Restart.RECREATE),
        options={"parallelism": 2, "completions": 3},
    )
    world = World(job)
    world.look(running("0"), running("1"))

    decision = world.look(
        succeeded("0"), running("1"), at=1.0, admission=Granted(0, frozenset({"mnist-0", "mnist-1"}))
    )

    assert others(decision) == [Admit(0, (Demand("mnist-1", Resources()), Demand("mnist-2", Resources())))]


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
    world = World(build.job(Kind.PYTORCH, build.role("Master"), build.role("Worker", 10)))

    decision = world.look()

    names = ", ".join(f"mnist-worker-{index}" for index in range(8))
    assert decision.events == (
        Event(EventType.NORMAL, "SuccessfulCreatePod", "Created pod: mnist-master-0"),
        Event(EventType.NORMAL, "SuccessfulCreatePod", f"Created pods: {names} and 2 more"),
    )


def test_eight_names_are_told_in_full() -> None:
    decision = World(workers(8)).look()

    assert decision.events[0].message.endswith("mnist-worker-6, mnist-worker-7")


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
        Stop("mnist-worker-2", "worker-2/0", None),
        Stop("mnist-worker-3", "worker-3/0", None),
    )
    assert Event(EventType.NORMAL, "SuccessfulDeletePod", "Deleted pods: mnist-worker-2, mnist-worker-3") in (
        decision.events
    )
    assert dying.actions == gone.actions == ()
    assert (world.status.crashes, world.status.evictions) == (0, 0)


def test_a_gang_is_scaled_without_a_new_attempt() -> None:
    world = World(workers(3, unit=Unit.GANG))
    world.look(*(running(f"worker-{index}") for index in range(3)))
    world.scale("worker", 2)

    world.look(*(running(f"worker-{index}") for index in range(3)), at=1.0)
    world.look(running("worker-0"), running("worker-1"), crashed("worker-2"), at=2.0)

    assert (world.status.attempt, world.status.crashes) == (0, 0)


def test_resources_of_those_who_were_scaled_away_are_given_back_when_they_are_gone() -> None:
    world = busy(4)
    before = granted(world.job)
    both = running("worker-0"), running("worker-1")
    world.look(*both, running("worker-2"), running("worker-3"))
    world.scale("worker", 2)

    dying = world.look(*both, stopping("worker-2"), stopping("worker-3"), at=1.0, admission=before)
    half = world.look(*both, stopping("worker-3"), at=2.0, admission=before)
    fewer = Granted(0, before.replicas - {"mnist-worker-2"})
    gone = world.look(*both, at=3.0, admission=fewer)
    settled = world.look(*both, at=4.0)

    assert others(dying) == []
    assert others(half) == [Admit(0, (demand(0), demand(1), demand(3)))]
    assert others(gone) == [Admit(0, (demand(0), demand(1)))]
    assert others(settled) == []


def test_who_is_leaving_keeps_its_resources_while_others_are_asked_for() -> None:
    world = busy(3)
    world.look(*(running(f"worker-{index}") for index in range(3)))
    world.scale("worker", 2)
    world.look(*(running(f"worker-{index}") for index in range(3)), at=1.0)

    decision = world.look(running("worker-0"), stopping("worker-2"), at=2.0, admission=None)

    assert others(decision) == [Admit(0, (demand(0), demand(1), demand(2)))]


def test_a_gang_starts_nobody_without_the_resources_of_one_who_leaves_and_is_wanted_again() -> None:
    world = busy(3, unit=Unit.GANG)
    three = running("worker-0"), running("worker-1"), running("worker-2")
    world.look(*three)
    world.scale("worker", 2)
    world.look(*three, at=1.0)
    world.scale("worker", 4)
    part = Granted(0, frozenset({"mnist-worker-0", "mnist-worker-1", "mnist-worker-3"}))

    decision = world.look(running("worker-0"), running("worker-1"), stopping("worker-2"), admission=part)

    assert decision.actions == (Admit(0, tuple(demand(index) for index in range(4))),)


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
    world = World(workers(2, unit=Unit.GANG))
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


# Faults.


def fault(index: int = 0, *, final: bool = False) -> Fault:
    return Fault(f"mnist-worker-{index}", "no such program: train", final=final)


def test_a_final_fault_fails_the_job_with_its_text() -> None:
    world = World(workers())

    world.look(faults=(fault(1), fault(0, final=True)))

    failed = world.status.condition(ConditionType.FAILED)
    assert failed is not None
    assert failed.message == "mnist-worker-0 cannot start: no such program: train"


def test_a_fault_that_may_pass_is_told_and_tried_again_after_a_while() -> None:
    world = World(workers())
    world.look()

    waiting = world.look(running("worker-1"), at=1.0, faults=(fault(),))
    early = world.look(running("worker-1"), at=1.5)
    due = world.look(running("worker-1"), at=2.0)

    assert world.status.trouble == "no such program: train"
    assert (starts(waiting), starts(early), starts(due)) == ([], [], ["worker-0"])
    assert waiting.wake_at == early.wake_at == 2.0
    assert (world.status.crashes, world.status.evictions) == (0, 0)


def test_a_fault_that_is_seen_again_before_its_time_does_not_wait_longer() -> None:
    world = World(workers())
    world.look()
    world.look(running("worker-1"), at=1.0, faults=(fault(),))

    for now in (1.2, 1.4, 1.9):
        decision = world.look(running("worker-1"), at=now, faults=(fault(),))
        assert decision.wake_at == 2.0

    assert world.status.retries["mnist-worker-0"] == Retry(1, 2.0)


def test_a_fault_that_stays_until_the_next_try_is_tried_again_ever_more_rarely() -> None:
    world = World(workers())
    world.look()
    tries = []
    now = 1.0
    for _ in range(6):
        decision = world.look(running("worker-1"), at=now, faults=(fault(),))
        tries += [now] * len(starts(decision))
        assert decision.wake_at is not None
        now = decision.wake_at

    assert tries == [2.0, 3.0, 5.0, 9.0, 17.0]


def test_a_fault_does_not_cut_the_back_off_of_its_gang_short() -> None:
    world = World(workers(2, unit=Unit.GANG))
    for attempt in range(5):
        world.look(crashed("worker-0", attempt=attempt), running("worker-1", attempt=attempt), at=10.0)
    assert world.status.retries == {"": Retry(5, 18.0)}

    for now in (11.0, 12.0, 13.0):
        assert starts(world.look(at=now, faults=(fault(),))) == []
    assert starts(world.look(at=18.0, faults=(fault(),))) == ["worker-0", "worker-1"]


def test_a_fault_of_no_replica_makes_the_whole_gang_wait() -> None:
    world = World(workers())
    nobody = Fault("", "the disk is full")
    world.look()

    waiting = world.look(at=1.0, faults=(nobody,))
    due = world.look(at=2.0, faults=(nobody,))

    assert (starts(waiting), waiting.wake_at) == ([], 2.0)
    assert starts(due) == ["worker-0", "worker-1"]


def test_trouble_is_over_when_everybody_is_there() -> None:
    world = World(workers())
    world.look()
    world.look(running("worker-1"), at=1.0, faults=(fault(),))

    world.look(running("worker-0"), running("worker-1"), at=3.0)

    assert world.status.trouble == ""


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
