"""How a job starts that is larger than its place allows, or than one step can plan."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bireme.core.replicas import slow_start
from bireme.core.replicas.slow_start import MOST_AT_ONCE, MOST_OF_A_STEP
from bireme.model.job import RestartScope
from bireme.model.replicas import Fault
from bireme.model.status import RefusedStart, Retry
from tests.unit.core.world import World, crashed, running, starts, workers


def refused(index: int) -> Fault:
    return Fault(f"mnist-worker-{index}", f"exceeded quota: worker-{index}")


def test_nobody_is_started_while_a_refused_start_waits() -> None:
    world = World(workers(100))
    world.look()

    held = world.look(running("worker-0"), at=1.0, faults=(refused(1), refused(2)))
    early = world.look(running("worker-0"), at=1.9)

    assert (starts(held), held.wake_at) == ([], 2.0)
    assert (starts(early), early.wake_at) == ([], 2.0)
    assert world.status.refusal == RefusedStart("mnist-worker-1", 1, 2.0)
    assert world.status.retries == {}


def test_after_a_refusal_one_replica_is_tried_alone() -> None:
    world = World(workers(100))
    world.look()
    world.look(running("worker-0"), at=1.0, faults=(refused(1),))

    due = world.look(running("worker-0"), at=2.0)

    assert starts(due) == ["worker-1"]
    assert not due.events, "a start that will probably be refused is not told as done"


def test_everybody_follows_when_the_refused_one_is_there() -> None:
    world = World(workers(10))
    world.look()
    world.look(running("worker-0"), at=1.0, faults=(refused(1),))
    world.look(running("worker-0"), at=2.0)

    taken = world.look(running("worker-0"), running("worker-1"), at=2.1)

    assert starts(taken) == [f"worker-{index}" for index in range(2, 10)]
    assert world.status.refusal is None


def test_a_quota_that_stays_used_up_is_asked_ever_more_rarely() -> None:
    world = World(workers(100))
    world.look()
    tries = []
    now = 1.0
    for _ in range(12):
        decision = world.look(at=now, faults=(refused(0),))
        tries += [now] * len(starts(decision))
        assert decision.wake_at is not None
        now = decision.wake_at

    gaps = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert gaps == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 30.0, 30.0]


def test_the_same_refusal_is_told_once() -> None:
    world = World(workers(100))
    world.look()

    first = world.look(at=1.0, faults=(refused(3), refused(0)))
    again = world.look(at=2.0, faults=(refused(0), refused(3)))

    assert [event.message for event in first.events] == ["exceeded quota: worker-0"]
    assert not again.events


def test_a_name_that_is_taken_holds_up_nobody_else() -> None:
    world = World(workers(3))
    world.look()
    taken = Fault("mnist-worker-0", "a Pod of this name exists", alone=True)

    decision = world.look(at=1.0, faults=(taken,))

    assert starts(decision) == ["worker-1", "worker-2"]
    assert world.status.retries == {"mnist-worker-0": Retry(1, 2.0)}
    assert world.status.refusal is None


def test_a_replica_that_is_not_wanted_any_more_holds_up_nobody() -> None:
    world = World(workers(5))
    world.look()
    world.look(at=1.0, faults=(refused(4),))
    world.job = workers(4)

    decision = world.look(at=1.5)

    assert starts(decision) == [f"worker-{index}" for index in range(4)]


def test_room_for_another_replica_is_room_for_all_if_the_refused_one_may_not_start() -> None:
    world = World(workers(5))
    world.look()
    world.look(at=1.0, faults=(refused(4),))
    world.status = replace(world.status, retries={"mnist-worker-4": Retry(9, 100.0)})

    tried = world.look(at=2.0)
    follow = world.look(running("worker-0"), at=2.1)

    assert starts(tried) == ["worker-0"]
    assert starts(follow) == ["worker-1", "worker-2", "worker-3"]


def test_a_new_attempt_of_the_gang_is_not_held_up_by_a_refusal_of_the_last() -> None:
    world = World(workers(3, unit=RestartScope.GANG))
    world.look()
    world.look(running("worker-0"), at=1.0, faults=(refused(1),))
    world.look(crashed("worker-0"), at=1.5)

    decision = world.look(at=1.6)

    assert (world.status.attempt, world.status.refusal) == (1, None)
    assert starts(decision) == ["worker-0", "worker-1", "worker-2"]


def test_an_admission_that_is_refused_is_asked_for_ever_more_rarely() -> None:
    world = World(workers(3))
    world.look(admission=None)
    asked = []
    now = 1.0
    while now < 100.0:
        decision = world.look(at=now, admission=None, faults=(refused(0),))
        asked += [now] * len(decision.actions)
        assert decision.wake_at is not None
        now = decision.wake_at

    gaps = [later - earlier for earlier, later in itertools.pairwise(asked)]
    assert gaps == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_a_large_job_is_planned_in_slices_without_a_pause() -> None:
    world = World(workers(1000))
    there: list[str] = []
    slices = []
    while len(there) < 1000:
        decision = world.look(*(running(name) for name in there), at=5.0)
        slices.append(len(starts(decision)))
        there += starts(decision)
        assert (decision.wake_at == 5.0) == (len(there) < 1000)

    assert max(slices) == MOST_OF_A_STEP
    assert len(set(there)) == 1000


@given(st.integers(0, 10_000))
def test_a_start_that_is_accepted_lets_at_most_two_follow(accepted: int) -> None:
    assert 1 <= slow_start.lanes(accepted) <= MOST_AT_ONCE
    assert slow_start.lanes(accepted + 1) - slow_start.lanes(accepted) in (0, 1)
