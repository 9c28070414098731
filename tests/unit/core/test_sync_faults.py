"""What follows when something cannot be started."""

from __future__ import annotations

from bireme.model.job import RestartScope
from bireme.model.replicas import Fault
from bireme.model.status import ConditionType, RefusedStart, Retry
from tests.unit.core.world import (
    World,
    crashed,
    running,
    starts,
    workers,
)


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

    assert world.status.refusal == RefusedStart("mnist-worker-0", 1, 2.0)


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


def test_a_fault_of_one_replica_that_stays_until_the_next_try_is_tried_again_ever_more_rarely() -> None:
    world = World(workers())
    world.look()
    taken = Fault("mnist-worker-0", "a Pod of this name exists", alone=True)
    tries = []
    now = 1.0
    for _ in range(6):
        decision = world.look(running("worker-1"), at=now, faults=(taken,))
        tries += [now] * len(starts(decision))
        assert decision.wake_at is not None
        now = decision.wake_at

    assert tries == [2.0, 3.0, 5.0, 9.0, 17.0]


def test_a_fault_does_not_cut_the_back_off_of_its_gang_short() -> None:
    world = World(workers(2, unit=RestartScope.GANG))
    for attempt in range(5):
        world.look(crashed("worker-0", attempt=attempt), running("worker-1", attempt=attempt), at=10.0)
    assert world.status.retries == {"": Retry(5, 18.0)}

    for now in (11.0, 12.0, 13.0):
        assert starts(world.look(at=now, faults=(fault(),))) == []
    assert starts(world.look(at=18.0, faults=(fault(),))) == ["worker-0"]


def test_a_fault_of_no_replica_makes_the_whole_job_wait() -> None:
    world = World(workers())
    nobody = Fault("", "the disk is full")
    world.look()

    waiting = world.look(at=1.0, faults=(nobody,))
    due = world.look(at=2.0, faults=(nobody,))

    assert (starts(waiting), waiting.wake_at) == ([], 2.0)
    assert starts(due) == ["worker-0"]


def test_trouble_is_over_when_everybody_is_there() -> None:
    world = World(workers())
    world.look()
    world.look(running("worker-1"), at=1.0, faults=(fault(),))

    world.look(running("worker-0"), running("worker-1"), at=3.0)

    assert world.status.trouble == ""
