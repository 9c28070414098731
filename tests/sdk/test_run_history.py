"""A journal reads as lives: who began, how each ended, and whose wish that was."""

from __future__ import annotations

from bireme.model.replicas import ReplicaPhase
from bireme.runs import replica_history, replica_journal
from bireme.runs.replica_history import Failure
from bireme.runs.replica_journal import Began, Ended, Entry, Gone, Over, Ran

BEGAN = Began("u1", "mnist-worker-0", "worker", 0, 0, 1.0)
RAN = Ran("u1", "pytorch", 77, 5, False, 1.5)


def test_a_replica_that_lives_has_a_process_and_no_end() -> None:
    (life,) = replica_journal.lives([BEGAN, RAN])

    assert (life.pid, life.ran, life.ended, life.phase) == (77, 1.5, None, None)


def test_a_crash_is_kept_with_its_reason() -> None:
    over = Over("u1", ReplicaPhase.FAILED, 137, 0, 9.1, reason="OOMKilled", message="too much")

    (life,) = replica_journal.lives(
        [BEGAN, RAN, Ended("u1", "pytorch", 137, 9.0, "OOMKilled", "too much"), over]
    )

    assert life.failures == (Failure(9.0, 137, "pytorch", "OOMKilled", "too much"),)
    assert (life.phase, life.exit_code, life.reason, life.ended) == (
        ReplicaPhase.FAILED,
        137,
        "OOMKilled",
        9.0,
    )


def test_what_ends_as_it_is_removed_was_ended_by_us() -> None:
    entries: list[Entry] = [BEGAN, RAN, Ended("u1", "pytorch", 143, 9.0), Gone("u1", 9.05)]

    (life,) = replica_journal.lives(entries)

    assert life.failures == ()
    assert (life.gone, life.exit_code) == (True, 143)


def test_a_restart_in_place_is_the_same_life_and_a_replacement_another() -> None:
    entries: list[Entry] = [
        BEGAN,
        RAN,
        Ended("u1", "pytorch", 1, 2.0),
        Ran("u1", "pytorch", 78, 6, False, 12.0),
        Began("u2", "mnist-worker-0", "worker", 0, 1, 20.0),
    ]

    first, second = replica_journal.lives(entries)

    assert (first.pid, first.ended, len(first.failures)) == (78, None, 1)
    assert replica_history.newest((first, second)) == {"mnist-worker-0": second}


def test_entries_of_nobody_are_left_out() -> None:
    assert replica_journal.lives([RAN, Gone("u9", 1.0)]) == ()


def test_ran_counts_overlapping_lives_once_and_leaves_out_pauses() -> None:
    entries: list[Entry] = []
    for uid, begin, end in (("a", 10.0, 20.0), ("b", 15.0, 25.0), ("c", 100.0, 110.0)):
        entries += [
            Began(uid, f"{uid}-0", "worker", 0, 0, begin - 1.0),
            Ran(uid, "main", 1, 1, False, begin),
            Ended(uid, "main", 0, end),
        ]

    assert replica_history.ran(replica_journal.lives(entries), 500.0) == 25.0
    assert replica_history.ran((), 500.0) is None
