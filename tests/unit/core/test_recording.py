"""Which changes of a status may wait to be recorded, and until when."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bireme.core import recording
from bireme.core.reconcile import reconcile
from bireme.model.decisions import Decision
from bireme.model.replicas import Addresses, Granted, Observation, Replica
from bireme.model.status import Counts, Sighting, Status
from tests.unit.core.world import crashed, pending, running, stopping, workers

JOB = workers(2)
NEVER = float("inf")
GRANTED = Granted(0, frozenset(("mnist-worker-0", "mnist-worker-1")), Addresses())


def decided(before: Status, *replicas: Replica, now: float = 100.0, record_by: float = NEVER) -> Decision:
    decision = reconcile(JOB, before, Observation(replicas, GRANTED), now)
    return recording.put_off(JOB, before, decision, record_by, now)


def recorded(*looks: tuple[Replica, ...]) -> Status:
    status = Status()
    for replicas in looks:
        status = decided(status, *replicas, now=0.0).status
    return status


CREATED = recorded((pending("worker-0"), pending("worker-1")))
RUNNING = recorded((running("worker-0"), running("worker-1")))


def test_the_first_status_of_a_job_waits_for_its_replicas() -> None:
    decision = decided(Status())

    assert decision.actions, "its replicas are started meanwhile"
    assert (decision.record_by, decision.wake_at) == (102.0, 102.0)


def test_counts_wait_for_a_second() -> None:
    before = replace(RUNNING, replicas={"Worker": Counts(active=1)})

    assert decided(before, running("worker-0"), running("worker-1")).record_by == 101.0


def test_that_a_job_runs_waits_until_all_of_it_does() -> None:
    begins = decided(CREATED, running("worker-0"), pending("worker-1"))
    complete = decided(CREATED, running("worker-0"), running("worker-1"))

    assert begins.record_by == 100.5
    assert complete.record_by is None


def test_what_waits_already_is_not_put_off_further() -> None:
    assert decided(Status(), record_by=100.3).record_by == 100.3
    assert decided(Status(), record_by=100.3).wake_at == 100.3
    assert decided(Status(), record_by=100.0).record_by is None


@pytest.mark.parametrize(
    "replicas",
    [
        (crashed("worker-0"), running("worker-1")),
        (stopping("worker-0"), running("worker-1")),
        (running("worker-1"),),
    ],
    ids=["a crash", "a removal", "a loss"],
)
def test_a_loss_is_recorded_before_anything_is_done(replicas: tuple[Replica, ...]) -> None:
    decision = decided(RUNNING, *replicas)

    assert decision.status != RUNNING
    assert decision.record_by is None


def test_a_replica_that_leaves_by_our_wish_is_recorded_before_it_is_stopped() -> None:
    before = replace(RUNNING, replicas={})
    closed = replace(RUNNING, sightings={"mnist-worker-0": Sighting("worker-0/0", closed=True)})

    assert recording.put_off(JOB, before, Decision(closed), NEVER, 100.0).record_by is None


@pytest.mark.parametrize(
    "change", [{"attempt": 1}, {"crashes": 1}, {"waiting": "for room"}, {"completed": 1.0}, {"fence": 1}]
)
def test_nothing_else_waits(change: dict[str, object]) -> None:
    after = replace(RUNNING, **change)

    assert recording.put_off(JOB, RUNNING, Decision(after), NEVER, 100.0).record_by is None


def test_a_status_that_did_not_change_has_nothing_to_wait_for() -> None:
    assert recording.put_off(JOB, RUNNING, Decision(RUNNING), NEVER, 100.0) == Decision(RUNNING)
