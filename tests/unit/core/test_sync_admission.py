"""Does a job ask for all that it needs, keep what it uses and give back the rest."""

from __future__ import annotations

from msgspec.structs import replace

from bireme.model.decisions import Admit, Demand
from bireme.model.job import Restart, RestartScope
from bireme.model.pods import Resources
from bireme.model.replicas import Granted, Waiting
from bireme.model.status import Phase
from tests.unit import build
from tests.unit.core.world import (
    ONE_CPU,
    World,
    busy,
    crashed,
    granted,
    others,
    running,
    starts,
    stopping,
    succeeded,
)


def demand(index: int, resources: Resources = ONE_CPU) -> Demand:
    return Demand(f"mnist-worker-{index}", resources, ("pytorchjob-port",))


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
    world = busy(unit=RestartScope.GANG)
    world.look(running("worker-0"), running("worker-1"))
    world.look(crashed("worker-0"), running("worker-1"), at=1.0)

    decision = world.look(at=2.0, admission=granted(world.job, attempt=0))

    assert decision.actions == (Admit(1, (demand(0), demand(1))),)


def test_a_gang_that_is_admitted_in_part_does_not_start() -> None:
    world = busy(unit=RestartScope.GANG)

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
    world = busy(3)
    world.look(succeeded("worker-0"), running("worker-1"), running("worker-2"))

    decision = world.look(running("worker-2"), at=1.0, admission=None)

    idle = demand(0, Resources(cpu=0, memory=0))
    assert others(decision) == [Admit(0, (idle, demand(1), demand(2)))]


def test_who_is_done_and_has_no_address_is_not_asked_for() -> None:
    job = build.job(
        "Job",
        build.role("Pod", restart=Restart.RECREATE),
        options={"parallelism": 2, "completions": 3},
    )
    world = World(job)
    world.look(running("0"), running("1"))

    decision = world.look(
        succeeded("0"), running("1"), at=1.0, admission=Granted(0, frozenset({"mnist-0", "mnist-1"}))
    )

    assert others(decision) == [Admit(0, (Demand("mnist-1", Resources()), Demand("mnist-2", Resources())))]


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


def test_whoever_is_dead_and_not_wanted_gives_its_resources_back_before_it_is_cleared_away() -> None:
    world = busy(3)
    before = granted(world.job)
    world.look(*(running(f"worker-{index}") for index in range(3)))
    world.scale("worker", 2)

    dead = replace(crashed("worker-2"), stopping=True)
    decision = world.look(running("worker-0"), running("worker-1"), dead, at=1.0, admission=before)

    assert others(decision) == [Admit(0, (demand(0), demand(1)))]


def test_who_is_leaving_keeps_its_resources_while_others_are_asked_for() -> None:
    world = busy(3)
    world.look(*(running(f"worker-{index}") for index in range(3)))
    world.scale("worker", 2)
    world.look(*(running(f"worker-{index}") for index in range(3)), at=1.0)

    decision = world.look(running("worker-0"), stopping("worker-2"), at=2.0, admission=None)

    assert others(decision) == [Admit(0, (demand(0), demand(1), demand(2)))]


def test_a_replica_starts_although_there_is_no_room_for_another_who_is_wanted_again() -> None:
    world = busy(3)
    three = running("worker-0"), running("worker-1"), running("worker-2")
    world.look(*three)
    world.scale("worker", 2)
    world.look(*three, at=1.0)
    world.scale("worker", 4)
    part = Granted(0, frozenset({"mnist-worker-0", "mnist-worker-1", "mnist-worker-3"}))

    decision = world.look(running("worker-0"), running("worker-1"), stopping("worker-2"), admission=part)

    assert starts(decision) == ["worker-3"]


def test_a_gang_starts_nobody_without_the_resources_of_one_who_leaves_and_is_wanted_again() -> None:
    world = busy(3, unit=RestartScope.GANG)
    three = running("worker-0"), running("worker-1"), running("worker-2")
    world.look(*three)
    world.scale("worker", 2)
    world.look(*three, at=1.0)
    world.scale("worker", 4)
    part = Granted(0, frozenset({"mnist-worker-0", "mnist-worker-1", "mnist-worker-3"}))

    decision = world.look(running("worker-0"), running("worker-1"), stopping("worker-2"), admission=part)

    assert decision.actions == (Admit(0, tuple(demand(index) for index in range(4))),)
