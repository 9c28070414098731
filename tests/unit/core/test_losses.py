"""Is every crash and every eviction counted, and is none counted twice."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bireme.core.restarts import losses
from bireme.core.restarts.losses import Losses
from bireme.model.job import Job, RestartScope
from bireme.model.replicas import Observation, Replica, ReplicaPhase
from bireme.model.status import Sighting, Status
from tests.unit.core.world import crashed, evicted, running, seen, stopping, succeeded, unknown, workers

JOB = workers(2)
GANG = workers(3, unit=RestartScope.GANG)
BOTH = frozenset({"mnist-worker-0", "mnist-worker-1"})
FIRST, SECOND = "mnist-worker-0", "mnist-worker-1"


def count(
    status: Status, *replicas: Replica, job: Job = JOB, wanted: frozenset[str] = BOTH
) -> tuple[Status, Losses]:
    return losses.count(job, status, Observation(replicas), wanted)


def after(
    *looks: tuple[Replica, ...], job: Job = JOB, wanted: frozenset[str] = BOTH
) -> tuple[Status, Losses]:
    """Take one look after the other; the losses are those of the last."""
    status, lost = Status(), Losses()
    for replicas in looks:
        status, lost = count(status, *replicas, job=job, wanted=wanted)
    return status, lost


def test_nothing_is_lost_while_replicas_run() -> None:
    status, lost = after((running("worker-0"), running("worker-1")))

    assert not lost
    assert (status.crashes, status.evictions) == (0, 0)
    assert status.sightings == {FIRST: Sighting("worker-0/0"), SECOND: Sighting("worker-1/0")}


def test_a_crash_is_counted_when_it_is_first_seen() -> None:
    status, lost = after(
        (running("worker-0"), running("worker-1")), (crashed("worker-0"), running("worker-1"))
    )

    assert lost == Losses(crashes={FIRST: 1})
    assert (status.crashes, status.evictions) == (1, 0)


def test_the_same_crash_seen_again_is_not_counted_again() -> None:
    status, lost = after(*[(crashed("worker-0"), running("worker-1"))] * 3)

    assert not lost
    assert status.crashes == 1


def test_a_counted_crash_that_is_removed_is_no_eviction() -> None:
    status, lost = after((crashed("worker-0"), running("worker-1")), (running("worker-1"),))

    assert not lost
    assert (status.crashes, status.evictions) == (1, 0)


def test_the_crash_of_a_replacement_is_counted_for_itself() -> None:
    status, _ = after((crashed("worker-0", uid="a"),), (crashed("worker-0", uid="b"),))

    assert status.crashes == 2


def test_restarts_in_place_are_counted_as_they_grow() -> None:
    status, lost = after(
        (running("worker-0", restarts=1), running("worker-1")),
        (running("worker-0", restarts=1), running("worker-1")),
        (running("worker-0", restarts=4), running("worker-1")),
    )

    assert lost == Losses(crashes={FIRST: 3})
    assert status.crashes == 4


def test_a_failure_after_restarts_in_place_is_one_more() -> None:
    status, _ = after((running("worker-0", restarts=2),), (crashed("worker-0", restarts=2),))

    assert status.crashes == 3


def test_a_restart_count_that_falls_takes_nothing_back() -> None:
    status, lost = after(
        (running("worker-0", restarts=2),),
        (running("worker-0", restarts=1),),
        (running("worker-0", restarts=2),),
    )

    assert not lost
    assert status.crashes == 2


def test_an_evicted_replica_is_an_eviction() -> None:
    status, lost = after((evicted("worker-0"), running("worker-1")))

    assert lost.evictions == (FIRST,)
    assert not lost.crashes
    assert (status.crashes, status.evictions) == (0, 1)


def test_restarts_before_an_eviction_are_crashes() -> None:
    status, lost = after((evicted("worker-0", restarts=2), running("worker-1")))

    assert (lost.crashes, lost.evictions) == ({FIRST: 2}, (FIRST,))
    assert (status.crashes, status.evictions) == (2, 1)


def test_a_replica_that_vanishes_is_evicted_once() -> None:
    status, lost = after((running("worker-0"), running("worker-1")), (running("worker-1"),))
    again, nothing = count(status, running("worker-1"))

    assert lost.evictions == (FIRST,)
    assert not nothing
    assert again.evictions == 1


def test_a_replica_that_was_never_seen_is_not_lost() -> None:
    status, lost = after((running("worker-1"),))

    assert not lost
    assert status.evictions == 0


def test_a_replica_that_succeeded_may_vanish() -> None:
    status, _ = count(Status(done=(FIRST,)), succeeded("worker-0"), running("worker-1"))

    status, lost = count(status, running("worker-1"))

    assert not lost
    assert status.evictions == 0


@pytest.mark.parametrize(
    "gone", [(), (stopping("worker-1"),), (crashed("worker-1"),), (evicted("worker-1"),)], ids=str
)
def test_what_becomes_of_a_replica_that_is_not_wanted_any_more_is_no_loss(gone: tuple[Replica, ...]) -> None:
    status, _ = after((running("worker-0"), running("worker-1")))

    status, lost = count(status, running("worker-0"), *gone, wanted=frozenset({FIRST}))

    assert not lost
    assert (status.crashes, status.evictions) == (0, 0)


def test_the_end_of_a_closed_replica_is_no_loss() -> None:
    status, _ = after((running("worker-0"), running("worker-1")))
    status = losses.close(status, frozenset({SECOND}))

    status, lost = count(status, running("worker-0"), stopping("worker-1"))
    status, gone = count(status, running("worker-0"))

    assert not lost
    assert not gone
    assert (status.crashes, status.evictions) == (0, 0)


def test_closing_leaves_the_others_open() -> None:
    status, _ = after((running("worker-0"), running("worker-1", restarts=2)))

    closed = losses.close(status, frozenset({SECOND, "mnist-worker-9"}))

    assert closed.sightings == {
        FIRST: Sighting("worker-0/0"),
        SECOND: Sighting("worker-1/0", losses=2, closed=True),
    }


def test_a_closed_replica_that_was_left_alone_and_is_wanted_again_counts_again() -> None:
    """The engine died between a scaling down and its stops, and the user scaled up again."""
    status, _ = after((running("worker-0"), running("worker-1", restarts=1)))
    status = losses.close(status, frozenset({SECOND}))

    status, nothing = count(status, running("worker-0"), running("worker-1", restarts=1))
    status, lost = count(status, running("worker-0"), crashed("worker-1", restarts=1))

    assert not nothing
    assert lost.crashes == {SECOND: 1}
    assert status.crashes == 2


def test_a_wanted_replica_that_somebody_else_removes_is_evicted_once() -> None:
    status, lost = after(
        (running("worker-0"), running("worker-1")), (stopping("worker-0"), running("worker-1"))
    )
    status, dying = count(status, stopping("worker-0"), running("worker-1"))
    status, dead = count(status, crashed("worker-0", 143), running("worker-1"))
    status, gone = count(status, running("worker-1"))

    assert lost.evictions == (FIRST,)
    assert not dying
    assert not dead
    assert not gone
    assert (status.crashes, status.evictions) == (0, 1)


def test_a_replica_that_exits_cleanly_because_somebody_removes_it_is_evicted() -> None:
    status, lost = after(
        (running("worker-0"), running("worker-1")),
        (seen("worker-0", ReplicaPhase.SUCCEEDED, stopping=True), running("worker-1")),
    )

    assert lost.evictions == (FIRST,)
    assert status.evictions == 1


def test_a_replica_that_is_seen_dead_only_while_somebody_removes_it_is_evicted() -> None:
    status, lost = after(
        (running("worker-0"), running("worker-1")),
        (replace(crashed("worker-0", 143), stopping=True), running("worker-1")),
    )

    assert lost.evictions == (FIRST,)
    assert (status.crashes, status.evictions) == (0, 1)


def test_somebody_may_remove_what_is_done() -> None:
    status = Status(done=(FIRST,))

    status, lost = count(status, seen("worker-0", ReplicaPhase.SUCCEEDED, stopping=True), running("worker-1"))

    assert not lost
    assert status.evictions == 0


def test_an_abandoned_replica_is_evicted_once() -> None:
    status, lost = after(
        (unknown("worker-0"), running("worker-1")),
        (stopping("worker-0", abandoned=True), running("worker-1")),
    )
    status, again = count(status, stopping("worker-0", abandoned=True), running("worker-1"))

    assert lost.evictions == (FIRST,)
    assert not again
    assert status.evictions == 1


def test_a_replica_whose_node_is_gone_is_evicted_although_nobody_removes_it() -> None:
    status, lost = after((seen("worker-0", ReplicaPhase.UNKNOWN, abandoned=True), running("worker-1")))

    assert lost == Losses(evictions=(FIRST,))
    assert (status.crashes, status.evictions) == (0, 1)


def test_a_counted_end_is_that_of_the_same_replica_and_not_of_its_forerunner() -> None:
    status, _ = after((crashed("worker-0", uid="a"), running("worker-1")))

    assert losses.is_counted(status, crashed("worker-0", uid="a"))
    assert not losses.is_counted(status, crashed("worker-0", uid="b"))


def test_not_to_know_is_not_to_have_lost() -> None:
    _, lost = after((running("worker-0"), running("worker-1")), (unknown("worker-0"), running("worker-1")))

    assert not lost


def test_replicas_of_an_older_attempt_are_neither_seen_nor_lost() -> None:
    status, lost = count(Status(attempt=1), crashed("worker-0", attempt=0), evicted("worker-1", attempt=0))

    assert not lost
    assert status.sightings == {}


def test_several_replicas_count_one_by_one() -> None:
    status, _ = after((crashed("worker-0"), crashed("worker-1")))

    assert status.crashes == 2


def test_evictions_that_leave_nobody_count_as_one() -> None:
    """A power cut is one misfortune, however many replicas it takes."""
    status, lost = after((running("worker-0"), running("worker-1")), ())

    assert lost.evictions == (FIRST, SECOND)
    assert lost.whole
    assert status.evictions == 1


def test_one_who_is_seen_dead_only_while_somebody_removes_it_may_be_the_whole_attempt() -> None:
    _, lost = after(
        (running("worker-0"),),
        (replace(crashed("worker-0", 143), stopping=True),),
        wanted=frozenset({FIRST}),
    )

    assert lost == Losses(evictions=(FIRST,), whole=True)


@pytest.mark.parametrize("other", [running("worker-1"), crashed("worker-1"), unknown("worker-1")], ids=str)
def test_an_eviction_beside_a_survivor_or_a_crash_is_not_the_whole_attempt(other: Replica) -> None:
    status, lost = after((running("worker-0"), running("worker-1")), (other,))

    assert lost.evictions == (FIRST,)
    assert not lost.whole
    assert status.evictions == 1


def test_an_eviction_beside_a_crash_that_we_clear_away_is_not_the_whole_attempt() -> None:
    clearing = replace(crashed("worker-1"), stopping=True)

    _, lost = after(
        (running("worker-0"), running("worker-1")),
        (running("worker-0"), crashed("worker-1")),
        (evicted("worker-0"), clearing),
    )

    assert lost == Losses(evictions=(FIRST,))


def test_crashes_that_leave_nobody_are_not_the_whole_attempt() -> None:
    _, lost = after((crashed("worker-0"), crashed("worker-1")))

    assert not lost.whole


def test_a_gang_is_lost_once_however_many_fall() -> None:
    status, lost = after((crashed("worker-0"), crashed("worker-1"), running("worker-2")), job=GANG)

    assert lost.crashes == {FIRST: 1, SECOND: 1}
    assert (status.crashes, status.evictions) == (1, 0)


def test_crashes_beside_an_eviction_are_its_echo_in_a_gang() -> None:
    status, _ = after((crashed("worker-0"), evicted("worker-1"), running("worker-2")), job=GANG)

    assert (status.crashes, status.evictions) == (0, 1)
