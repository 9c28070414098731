"""JAXJob: a coordinator at the first worker; all workers decide the job."""

from __future__ import annotations

import pytest
from tests.unit.build import book, container, declared, environment, job, place, role, tally

from bireme.kinds import jax
from bireme.kinds.contract import Failed, Running, Succeeded, Tally, Undecided, Verdict
from bireme.model.status import Counts

JOB = job("JAXJob", role("Worker", 2), name="psum")


def test_every_process_knows_the_coordinator_and_its_own_number() -> None:
    assert environment(place(JOB, "worker", 1)) == [
        "PYTHONUNBUFFERED=1",
        "COORDINATOR_PORT=6666",
        "COORDINATOR_ADDRESS=psum-worker-0",
        "NUM_PROCESSES=2",
        "PROCESS_ID=1",
    ]


def test_a_declared_port_counts() -> None:
    given = job("JAXJob", role("Worker", 2, container(ports={"jaxjob-port": 7001})))

    assert "COORDINATOR_PORT=7001" in environment(place(given, "worker", 1))


def test_here_the_coordinator_comes_from_the_book() -> None:
    assert environment(place(JOB, "worker", 1, book(JOB, first=40000))) == [
        "PYTHONUNBUFFERED=1",
        "COORDINATOR_PORT=40000",
        "COORDINATOR_ADDRESS=127.0.0.1",
        "NUM_PROCESSES=2",
        "PROCESS_ID=1",
    ]


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        (tally(), Undecided()),
        (tally(worker=Counts(active=1)), Running("JAXJob default/psum is running.")),
        (tally(worker=Counts(active=1, succeeded=1)), Running("JAXJob default/psum is running.")),
        (tally(worker=Counts(succeeded=2)), Succeeded("JAXJob default/psum successfully completed.")),
        (
            tally(worker=Counts(active=1, failed=1)),
            Failed("JAXJob psum is failed because 1 Worker replica(s) failed."),
        ),
    ],
)
def test_outcome(seen: Tally, verdict: Verdict) -> None:
    assert jax.KIND.outcome(JOB, seen) == verdict


def test_the_first_worker_leads() -> None:
    assert [jax.KIND.is_leader(JOB, declared(JOB, "worker"), index) for index in range(2)] == [True, False]
