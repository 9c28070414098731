"""Who is replaced after a loss, and when."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from bireme.model.decisions import Event, EventType, Stop
from bireme.model.job import Restart, RestartScope, RunPolicy
from bireme.model.replicas import Replica
from bireme.model.status import ConditionType, Counts, Phase, Status
from tests.unit import build
from tests.unit.core.world import (
    World,
    at_work,
    crashed,
    evicted,
    others,
    running,
    starts,
    stopping,
    stops,
    succeeded,
    told,
    workers,
)

CRASH = (crashed("worker-0", 1),)
KILLED = (crashed("worker-0", 137),)
EVICTION = (evicted("worker-0"),)
VANISHED: tuple[Replica, ...] = ()
LOSSES = {"crash": CRASH, "killed": KILLED, "eviction": EVICTION, "vanished": VANISHED}

REPLACED, NEXT_ATTEMPT, FAILED = "replaced", "next attempt", "failed"

TABLE = {
    (RestartScope.REPLICA, Restart.ALWAYS): (REPLACED, REPLACED, REPLACED, REPLACED),
    (RestartScope.REPLICA, Restart.ON_FAILURE): (REPLACED, REPLACED, REPLACED, REPLACED),
    (RestartScope.REPLICA, Restart.NEVER): (FAILED, FAILED, FAILED, FAILED),
    (RestartScope.REPLICA, Restart.EXIT_CODE): (FAILED, REPLACED, REPLACED, REPLACED),
    (RestartScope.REPLICA, Restart.RECREATE): (REPLACED, REPLACED, REPLACED, REPLACED),
    (RestartScope.GANG, Restart.ALWAYS): (NEXT_ATTEMPT,) * 4,
    (RestartScope.GANG, Restart.ON_FAILURE): (NEXT_ATTEMPT,) * 4,
    (RestartScope.GANG, Restart.NEVER): (NEXT_ATTEMPT,) * 4,
    (RestartScope.GANG, Restart.EXIT_CODE): (FAILED, NEXT_ATTEMPT, NEXT_ATTEMPT, NEXT_ATTEMPT),
    (RestartScope.GANG, Restart.RECREATE): (NEXT_ATTEMPT,) * 4,
}
CASES = [
    pytest.param(unit, restart, lost, expected, id=f"{unit}-{restart}-{name}")
    for (unit, restart), row in TABLE.items()
    for (name, lost), expected in zip(LOSSES.items(), row, strict=True)
]


@pytest.mark.parametrize(("unit", "restart", "lost", "expected"), CASES)
def test_what_follows_a_loss(
    unit: RestartScope, restart: Restart, lost: tuple[Replica, ...], expected: str
) -> None:
    world = at_work(workers(2, restart, unit=unit))

    decision = world.look(*lost, running("worker-1"), at=10.0)

    if expected == FAILED:
        assert world.phase() is Phase.FAILED
        assert starts(decision) == []
    elif expected == REPLACED:
        assert (world.phase(), world.status.attempt) == (Phase.RESTARTING, 0)
        after = decision if lost is VANISHED else world.look(running("worker-1"), at=10.0)
        assert starts(after) == ["worker-0"]
    else:
        assert (world.phase(), world.status.attempt) == (Phase.RESTARTING, 1)
        assert Stop("mnist-worker-1", "worker-1/0", grace=0.0) in decision.actions
        assert starts(decision) == []


@pytest.mark.parametrize("restart", Restart)
@pytest.mark.parametrize("lost", [EVICTION, VANISHED], ids=["eviction", "vanished"])
def test_an_eviction_that_leaves_nobody_starts_the_attempt_anew_under_any_policy(
    restart: Restart, lost: tuple[Replica, ...]
) -> None:
    world = World(workers(1, restart))
    world.look(running("worker-0"))

    world.look(*lost, at=10.0)
    after = world.look(at=10.0)

    assert (world.phase(), world.status.attempt) == (Phase.RESTARTING, 1)
    assert (world.status.crashes, world.status.evictions) == (0, 1)
    assert starts(after) == ["worker-0"]


@pytest.mark.parametrize(
    ("restart", "code"), [(Restart.NEVER, 1), (Restart.NEVER, 137), (Restart.EXIT_CODE, 1)]
)
def test_a_crash_that_leaves_nobody_is_judged_by_the_policy(restart: Restart, code: int) -> None:
    world = World(workers(1, restart))
    world.look(running("worker-0"))

    decision = world.look(crashed("worker-0", code), at=10.0)

    assert world.phase() is Phase.FAILED
    assert starts(decision) == stops(decision) == []


def test_a_loss_is_announced_by_a_condition_and_a_warning() -> None:
    world = at_work(workers())

    decision = world.look(crashed("worker-0"), running("worker-1"), at=10.0)

    message = "job mnist is restarting because Worker replica(s) failed."
    condition = world.status.condition(ConditionType.RESTARTING)
    assert told(world.status) == ["Created", "Restarting"]
    assert condition is not None
    assert (condition.reason, condition.message) == ("PyTorchJobRestarting", message)
    assert Event(EventType.WARNING, "PyTorchJobRestarting", message) in decision.events


def test_an_announcement_names_every_role_that_lost_somebody_and_no_other() -> None:
    again = Restart.ON_FAILURE
    world = World(
        build.job("PyTorchJob", build.role("Master", restart=again), build.role("Worker", 2, restart=again))
    )
    everybody = running("master-0"), running("worker-0"), running("worker-1")
    world.look(*everybody)

    both = world.look(crashed("master-0"), running("worker-0"), crashed("worker-1"), at=1.0)
    world.look(*(replace(one, uid="new") for one in everybody), at=2.0)
    one = world.look(running("master-0", uid="new"), crashed("worker-0", uid="new"), at=3.0)

    messages = [decision.events[0].message for decision in (both, one)]
    assert messages == [
        "job mnist is restarting because Master, Worker replica(s) failed.",
        "job mnist is restarting because Worker replica(s) failed.",
    ]


def test_a_restart_is_over_when_everybody_is_there_again() -> None:
    world = at_work(workers())
    world.look(crashed("worker-0"), running("worker-1"), at=10.0)
    world.look(running("worker-1"), at=10.0)
    assert world.phase() is Phase.RESTARTING

    world.look(running("worker-0", uid="new"), running("worker-1"), at=11.0)

    assert told(world.status) == ["Created", "Running"]


def test_a_restart_in_place_is_counted_and_otherwise_left_to_the_backend() -> None:
    world = at_work(workers())

    decision = world.look(running("worker-0", restarts=1), running("worker-1"), at=10.0)

    assert world.status.crashes == 1
    assert decision.actions == ()
    assert decision.events == ()
    assert world.status.retries == {}
    assert world.phase() is Phase.RUNNING


def test_restarts_in_place_that_are_seen_only_after_the_success_announce_nothing() -> None:
    world = at_work(workers())

    decision = world.look(replace(succeeded("worker-0"), restarts=2), running("worker-1"), at=10.0)

    assert world.status.crashes == 2
    assert decision.events == ()
    assert world.status.retries == {}
    assert world.phase() is Phase.RUNNING


def test_no_attempt_starts_before_the_old_one_is_seen_gone() -> None:
    world = at_work(workers(2, unit=RestartScope.GANG))
    world.look(crashed("worker-0"), running("worker-1"), at=10.0)

    dying = world.look(stopping("worker-1"), at=11.0)
    gone = world.look(at=12.0)

    assert dying.actions == ()
    assert starts(gone) == ["worker-0", "worker-1"]


def test_a_gang_forgets_who_was_done_with_the_last_attempt() -> None:
    world = at_work(workers(2, unit=RestartScope.GANG))
    before = world.look(succeeded("worker-0"), running("worker-1"), at=5.0)

    decision = world.look(succeeded("worker-0"), crashed("worker-1"), at=10.0)

    assert before.status.done == ("mnist-worker-0",)
    assert decision.status.done == ()
    assert stops(decision) == ["worker-0", "worker-1"]


def test_a_gang_counts_its_attempts_losses_once_while_the_rest_falls() -> None:
    world = at_work(workers(3, unit=RestartScope.GANG))
    world.look(crashed("worker-0"), running("worker-1"), running("worker-2"), at=10.0)

    world.look(crashed("worker-1"), stopping("worker-2"), at=11.0)
    world.look(crashed("worker-2"), at=12.0)

    assert (world.status.attempt, world.status.crashes, world.status.evictions) == (1, 1, 0)


def test_independent_replicas_that_are_done_stay_done_over_every_attempt() -> None:
    job = build.job(
        "Job",
        build.role("Pod", restart=Restart.RECREATE),
        unit=RestartScope.GANG,
        options={"parallelism": 2, "completions": 2},
    )
    world = World(job)
    world.look(running("0"), running("1"))
    world.look(succeeded("0"), running("1"), at=1.0)

    world.look(succeeded("0"), crashed("1"), at=10.0)
    after = world.look(at=10.0)

    assert (world.status.attempt, world.status.done) == (1, ("mnist-0",))
    assert starts(after) == ["1"]


DYNAMIC = build.job(
    "TFJob",
    build.role("Chief", restart=Restart.NEVER),
    build.role("Worker", 2, restart=Restart.NEVER),
    options={"enableDynamicWorker": True},
)


@pytest.mark.parametrize("lost", [crashed("worker-0"), evicted("worker-0")], ids=["crash", "eviction"])
def test_a_replica_that_must_not_be_replaced_stays_as_it_is_where_the_job_goes_on(lost: Replica) -> None:
    world = World(DYNAMIC)
    world.look(running("chief-0"), running("worker-0"), running("worker-1"))

    for now in (1.0, 2.0, 3.0):
        decision = world.look(running("chief-0"), lost, running("worker-1"), at=now)
        assert decision.actions == ()

    assert world.phase() is Phase.RUNNING
    assert world.status.replicas["Worker"].failed == 1
    assert world.status.crashes + world.status.evictions == 1
    assert world.status.retries == {}


def test_a_job_runs_again_without_those_who_are_lost_for_good() -> None:
    chief = build.role("Chief", restart=Restart.ON_FAILURE)
    world = World(replace(DYNAMIC, roles=(chief, DYNAMIC.roles[1])))
    lost, worker = crashed("worker-0"), running("worker-1")
    world.look(running("chief-0"), running("worker-0"), worker)
    world.look(running("chief-0"), lost, worker, at=1.0)
    before = world.look(crashed("chief-0"), lost, worker, at=2.0)

    world.look(running("chief-0", uid="new"), lost, worker, at=3.0)

    assert before.status.phase is Phase.RESTARTING
    assert world.phase() is Phase.RUNNING


def test_one_whose_restart_count_falls_is_not_lost_with_another() -> None:
    world = World(DYNAMIC)
    world.look(running("chief-0"), running("worker-0", restarts=2), running("worker-1"))

    world.look(running("chief-0"), running("worker-0", restarts=1), crashed("worker-1"), at=1.0)

    assert world.status.replicas["Worker"] == Counts(active=1, failed=1)


def test_a_replica_that_nothing_is_left_of_is_replaced_where_the_job_goes_on() -> None:
    world = World(DYNAMIC)
    world.look(running("chief-0"), running("worker-0"), running("worker-1"))

    decision = world.look(running("chief-0"), running("worker-1"), at=1.0)

    assert starts(decision) == ["worker-0"]


def test_an_eviction_while_a_permanent_exit_code_is_seen_fails_the_job() -> None:
    world = at_work(workers(2, Restart.EXIT_CODE))

    world.look(crashed("worker-0", 1), evicted("worker-1"), at=10.0)

    assert world.phase() is Phase.FAILED


def test_a_replica_that_was_removed_by_somebody_is_not_judged_by_its_exit_code() -> None:
    world = at_work(workers(2, Restart.EXIT_CODE))

    world.look(replace(crashed("worker-0", 1), stopping=True), running("worker-1"), at=10.0)

    assert world.phase() is Phase.RESTARTING
    assert (world.status.crashes, world.status.evictions) == (0, 1)


def test_a_restart_count_that_falls_is_no_loss() -> None:
    """A sidecar that waited to be started again is not, because the work is over."""
    world = at_work(workers(2, Restart.NEVER))
    world.look(running("worker-0", restarts=2), running("worker-1"), at=2.0)

    world.look(running("worker-0", restarts=1), running("worker-1"), at=3.0)

    assert world.phase() is Phase.RUNNING
    assert world.status.crashes == 2


@pytest.mark.parametrize("restart", [Restart.NEVER, Restart.EXIT_CODE])
def test_the_remains_of_one_who_was_scaled_away_fail_nothing_when_it_is_wanted_again(
    restart: Restart,
) -> None:
    world = at_work(workers(2, restart))
    world.scale("worker", 1)
    world.look(running("worker-0"), running("worker-1"), at=2.0)
    world.scale("worker", 2)

    dead = replace(crashed("worker-1", 1), stopping=True)
    world.look(running("worker-0"), dead, at=3.0)
    gone = world.look(running("worker-0"), at=4.0)

    assert world.phase() is Phase.RUNNING
    assert (world.status.crashes, world.status.evictions) == (0, 0)
    assert starts(gone) == ["worker-1"]


def test_a_removed_replica_comes_back_only_when_it_is_gone() -> None:
    world = at_work(workers())

    dying = world.look(stopping("worker-0"), running("worker-1"), at=10.0)
    gone = world.look(running("worker-1"), at=12.0)

    assert dying.actions == ()
    assert dying.status.phase is Phase.RESTARTING
    assert world.status.evictions == 1
    assert starts(gone) == ["worker-0"]


def test_the_status_is_all_that_whoever_carries_on_needs() -> None:
    world = at_work(workers(2, policy=RunPolicy(backoff_limit=1)))
    world.look(crashed("worker-0", uid="a"), running("worker-1"), at=10.0)
    heir = World(world.job, msgspec.json.decode(msgspec.json.encode(world.status), type=Status))

    decision = heir.look(crashed("worker-0", uid="a"), running("worker-1"), at=11.0)
    heir.look(crashed("worker-0", uid="b"), running("worker-1"), at=12.0)

    assert stops(decision) == ["worker-0"]
    assert others(decision) == []
    assert heir.phase() is Phase.FAILED
