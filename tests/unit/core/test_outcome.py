"""Are the replicas counted as users read them and as kinds decide by them."""

from __future__ import annotations

import pytest

from bireme.core import outcome
from bireme.kinds.contract import Tally
from bireme.model.job import Job
from bireme.model.replicas import Observation, Replica, ReplicaPhase
from bireme.model.status import Counts, Status
from tests.unit import build
from tests.unit.core.world import crashed, pending, running, seen, stopping, succeeded, unknown, workers

JOB = build.job("PyTorchJob", build.role("Master"), build.role("Worker", 2))


def tally(
    *replicas: Replica,
    job: Job = JOB,
    status: Status | None = None,
    lost: frozenset[str] = frozenset(),
) -> Tally:
    return outcome.tally(job, status or Status(), Observation(replicas), lost)


def noted(*replicas: Replica, job: Job = JOB, status: Status | None = None) -> tuple[str, ...]:
    return outcome.note_done(job, status or Status(), Observation(replicas)).done


def test_replicas_are_counted_by_role() -> None:
    counted = tally(running("master-0"), running("worker-0"), running("worker-1"))

    assert counted.counts == {"master": Counts(active=1), "worker": Counts(active=2)}
    assert counted.done == frozenset()


@pytest.mark.parametrize(
    "replica", [pending("worker-0"), stopping("worker-0"), unknown("worker-0")], ids=lambda one: one.phase
)
def test_who_lives_and_does_not_work_is_pending(replica: Replica) -> None:
    counted = tally(replica, running("worker-1"))

    assert counted.of("worker") == Counts(active=1)
    assert counted.pending == {"mnist-worker-0"}


def test_who_failed_and_will_be_replaced_counts_nowhere() -> None:
    counted = tally(crashed("worker-0"))

    assert counted.of("worker") == Counts()
    assert counted.pending == frozenset()


def test_who_is_lost_for_good_is_failed() -> None:
    counted = tally(crashed("worker-0"), running("worker-1"), lost=frozenset({"mnist-worker-0"}))

    assert counted.of("worker") == Counts(active=1, failed=1)


def test_who_is_done_is_neither_active_nor_failed_nor_pending() -> None:
    name = frozenset({"mnist-worker-0"})

    for replica in (running("worker-0"), pending("worker-0"), crashed("worker-0")):
        counted = tally(replica, status=Status(done=tuple(name)), lost=name)
        assert counted.of("worker") == Counts(succeeded=1)
        assert counted.done == name
        assert counted.pending == frozenset()


def test_who_is_lost_is_not_active() -> None:
    name = frozenset({"mnist-worker-0"})

    assert tally(running("worker-0"), lost=name).of("worker") == Counts(failed=1)
    assert tally(unknown("worker-0"), lost=name).pending == frozenset()


def test_replicas_of_another_attempt_count_nowhere() -> None:
    counted = tally(running("worker-0", attempt=0), pending("worker-1", attempt=0), status=Status(attempt=1))

    assert counted.of("worker") == Counts()
    assert counted.pending == frozenset()


def test_replicas_beyond_the_scale_are_not_counted() -> None:
    assert tally(running("worker-0"), running("worker-7")).of("worker") == Counts(active=1)


def test_users_read_the_counts_under_the_names_of_the_manifest() -> None:
    counted = tally(running("master-0"))

    assert outcome.by_type(JOB, counted) == {"Master": Counts(active=1), "Worker": Counts()}


def test_who_succeeded_is_remembered_in_the_order_of_the_job() -> None:
    first = outcome.note_done(JOB, Status(), Observation((succeeded("worker-1"), running("master-0"))))
    second = outcome.note_done(JOB, first, Observation((succeeded("master-0"),)))

    assert first.done == ("mnist-worker-1",)
    assert second.done == ("mnist-master-0", "mnist-worker-1")


def test_who_is_done_stays_so_when_nothing_is_left_of_it() -> None:
    assert noted(status=Status(done=("mnist-worker-1",))) == ("mnist-worker-1",)


def test_a_success_of_another_attempt_is_none() -> None:
    assert noted(succeeded("worker-0", attempt=0), status=Status(attempt=1)) == ()


def test_a_success_of_one_who_works_alone_counts_in_every_attempt() -> None:
    batch = build.job("Job", options={"parallelism": 2, "completions": 2})

    assert noted(succeeded("1", attempt=0), job=batch, status=Status(attempt=1)) == ("mnist-1",)


def test_a_clean_end_on_demand_is_no_success() -> None:
    assert noted(seen("worker-0", ReplicaPhase.SUCCEEDED, stopping=True)) == ()


def test_who_is_beyond_the_scale_is_forgotten() -> None:
    assert noted(job=workers(1), status=Status(done=("mnist-worker-0", "mnist-worker-1"))) == (
        "mnist-worker-0",
    )
