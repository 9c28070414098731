"""XGBoostJob: a tracker at the master, which decides the job."""

from __future__ import annotations

import pytest
from tests.unit.build import book, container, declared, environment, job, place, role, tally

from bireme.kinds import xgboost
from bireme.kinds.contract import Failed, Running, Succeeded, Tally, Undecided, Verdict
from bireme.model.job import Job
from bireme.model.status import Counts

JOB = job("XGBoostJob", role("Master"), role("Worker", 2), name="iris")
ALONE = job("XGBoostJob", role("Master"), name="iris")


def test_the_master_is_rank_0() -> None:
    assert environment(place(JOB, "master")) == [
        "MASTER_PORT=9999",
        "MASTER_ADDR=iris-master-0",
        "WORLD_SIZE=3",
        "RANK=0",
        "PYTHONUNBUFFERED=1",
        "WORKER_PORT=9999",
        "WORKER_ADDRS=iris-worker-0,iris-worker-1",
    ]


def test_workers_come_after_the_master() -> None:
    assert "RANK=1" in environment(place(JOB, "worker", 0))
    assert "RANK=2" in environment(place(JOB, "worker", 1))


def test_a_master_alone_hears_of_no_workers() -> None:
    assert environment(place(ALONE, "master")) == [
        "MASTER_PORT=9999",
        "MASTER_ADDR=iris-master-0",
        "WORLD_SIZE=1",
        "RANK=0",
        "PYTHONUNBUFFERED=1",
    ]


def test_declared_ports_count() -> None:
    given = job(
        "XGBoostJob",
        role("Master", 1, container(ports={"xgboostjob-port": 7001})),
        role("Worker", 1, container(ports={"xgboostjob-port": 7002})),
    )

    wired = environment(place(given, "worker"))

    assert "MASTER_PORT=7001" in wired
    assert "WORKER_PORT=7002" in wired


def test_here_the_addresses_come_from_the_book() -> None:
    assert environment(place(JOB, "worker", 1, book(JOB, first=40000))) == [
        "MASTER_PORT=40000",
        "MASTER_ADDR=127.0.0.1",
        "WORLD_SIZE=3",
        "RANK=2",
        "PYTHONUNBUFFERED=1",
        "WORKER_PORT=40001",
        "WORKER_ADDRS=127.0.0.1,127.0.0.1",
    ]


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        (tally(), Undecided()),
        (tally(worker=Counts(active=2)), Undecided()),
        (tally(master=Counts(active=1)), Running("XGBoostJob iris is running.")),
        (
            tally(master=Counts(succeeded=1), worker=Counts(active=1, failed=1)),
            Succeeded("XGBoostJob iris is successfully completed."),
        ),
        (tally(master=Counts(active=1), worker=Counts(succeeded=2)), Running("XGBoostJob iris is running.")),
        (
            tally(master=Counts(failed=1)),
            Failed("XGBoostJob iris is failed because 1 Master replica(s) failed."),
        ),
        (
            tally(master=Counts(active=1), worker=Counts(failed=2)),
            Failed("XGBoostJob iris is failed because 2 Worker replica(s) failed."),
        ),
    ],
)
def test_outcome(seen: Tally, verdict: Verdict) -> None:
    assert xgboost.KIND.outcome(JOB, seen) == verdict


@pytest.mark.parametrize(
    ("given", "problems"),
    [
        (JOB, []),
        (
            job("XGBoostJob", role("Worker")),
            [("spec.xgbReplicaSpecs[Master]", "Required value: must be present")],
        ),
        (
            job("XGBoostJob", role("Master", 2)),
            [("spec.xgbReplicaSpecs[Master].replicas", "Forbidden: must be 1")],
        ),
    ],
)
def test_there_must_be_one_master(given: Job, problems: list[tuple[str, str]]) -> None:
    assert [(one.field, one.text) for one in xgboost.KIND.validate(given)] == problems


def test_only_the_master_leads() -> None:
    assert xgboost.KIND.is_leader(JOB, declared(JOB, "master"), 0)
    assert not xgboost.KIND.is_leader(JOB, declared(JOB, "worker"), 0)
