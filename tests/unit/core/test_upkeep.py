"""When the objects that a job has beside its replicas are brought up to date, and its scheduler reminded."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bireme.core import upkeep
from bireme.core.reconcile import reconcile
from bireme.model.decisions import Remind, Repair
from bireme.model.job import RunPolicy
from bireme.model.replicas import Observation, Part
from bireme.model.status import Status
from tests.unit.core.world import World, pending, running, succeeded, workers

EVERYTHING = Observation(drift=tuple(Part))


def begun() -> World:
    world = World(workers(1))
    world.look(running("worker-0"))
    return world


def ended() -> World:
    world = begun()
    world.look(succeeded("worker-0"))
    assert world.status.phase.is_final
    return world


def repaired(world: World) -> set[Part]:
    actions, _ = upkeep.decide(world.job, world.status, EVERYTHING, now=1.0)
    return {one.part for one in actions if isinstance(one, Repair)}


def test_everything_is_repaired_while_a_job_runs() -> None:
    assert repaired(begun()) == set(Part)


def test_an_autoscaler_is_left_alone_until_the_job_runs() -> None:
    world = World(workers(1), Status())

    assert repaired(world) == {Part.LAUNCHER_ROLE, Part.POD_GROUP}


def test_after_the_end_only_rights_are_taken_back() -> None:
    assert repaired(ended()) == {Part.LAUNCHER_ROLE}


def test_so_it_is_while_a_job_is_suspended() -> None:
    world = begun()
    world.job = replace(world.job, policy=RunPolicy(suspend=True))

    assert repaired(world) == {Part.LAUNCHER_ROLE}


def test_nothing_is_done_about_what_is_as_it_should_be() -> None:
    world = begun()

    assert upkeep.decide(world.job, world.status, Observation(), now=1.0) == ((), None)


@pytest.mark.parametrize(("now", "reminds", "wake_at"), [(109.9, False, 110.0), (110.0, True, 120.0)])
def test_a_scheduler_is_reminded_every_ten_seconds(now: float, reminds: bool, wake_at: float) -> None:
    world = begun()

    decision = reconcile(
        world.job, world.status, Observation((pending("worker-0"),), unplaced_since=100.0), now
    )

    assert (Remind() in decision.actions) is reminds
    assert decision.wake_at == wake_at


def test_nobody_is_reminded_of_a_job_that_is_over() -> None:
    world = ended()

    assert upkeep.decide(world.job, world.status, Observation(unplaced_since=1.0), now=100.0) == ((), None)
