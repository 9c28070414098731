"""PaddleJob: collective without a master, parameter servers with one."""

from __future__ import annotations

import pytest
from tests.unit.build import book, container, declared, environment, job, options, place, role, tally

from bireme.kinds import paddle
from bireme.kinds.contract import Failed, Running, Succeeded, Tally, Undecided, Verdict
from bireme.model.job import Job
from bireme.model.status import Counts

COLLECTIVE = job("PaddleJob", role("Worker", 2), name="resnet")
SERVERS = job("PaddleJob", role("Worker", 2), role("Master", 2), name="ctr")


def test_the_first_worker_serves_at_its_own_address() -> None:
    assert environment(place(COLLECTIVE, "worker", 0)) == [
        "PYTHONUNBUFFERED=1",
        "PADDLE_JOB_ID=resnet",
        "PADDLE_NNODES=2",
        "POD_IP_DUMMY<-status.podIP",
        "PADDLE_MASTER=$(POD_IP_DUMMY):36543",
    ]


def test_the_other_workers_go_to_the_first() -> None:
    assert environment(place(COLLECTIVE, "worker", 1)) == [
        "PYTHONUNBUFFERED=1",
        "PADDLE_JOB_ID=resnet",
        "PADDLE_NNODES=2",
        "PADDLE_MASTER=resnet-worker-0:36543",
    ]


@pytest.mark.parametrize(
    ("role_name", "index", "meeting"),
    [
        (
            "master",
            0,
            ["POD_IP_DUMMY<-status.podIP", "PADDLE_MASTER=$(POD_IP_DUMMY):36543", "PADDLE_SERVER_NUM=1"],
        ),
        ("master", 1, ["PADDLE_MASTER=ctr-master-0:36543", "PADDLE_SERVER_NUM=1"]),
        ("worker", 0, ["PADDLE_MASTER=ctr-master-0:36543", "PADDLE_TRAINER_NUM=1"]),
    ],
)
def test_masters_are_parameter_servers_and_workers_trainers(
    role_name: str, index: int, meeting: list[str]
) -> None:
    assert environment(place(SERVERS, role_name, index)) == [
        "PYTHONUNBUFFERED=1",
        "PADDLE_JOB_ID=ctr",
        "PADDLE_NNODES=4",
        *meeting,
    ]


def test_the_port_is_the_one_that_the_meeting_role_declares() -> None:
    given = job(
        "PaddleJob",
        role("Master", 1, container(ports={"master": 7001})),
        role("Worker", 1, container(ports={"master": 7002})),
    )

    assert "PADDLE_MASTER=mnist-master-0:7001" in environment(place(given, "worker"))


@pytest.mark.parametrize("index", [0, 1])
def test_here_everyone_has_the_address_of_the_book(index: int) -> None:
    assert environment(place(COLLECTIVE, "worker", index, book(COLLECTIVE, first=40000))) == [
        "PYTHONUNBUFFERED=1",
        "PADDLE_JOB_ID=resnet",
        "PADDLE_NNODES=2",
        "PADDLE_MASTER=127.0.0.1:40000",
    ]


@pytest.mark.parametrize(
    ("given", "seen", "verdict"),
    [
        (COLLECTIVE, tally(), Undecided()),
        (COLLECTIVE, tally(worker=Counts(active=1)), Running("PaddleJob default/resnet is running.")),
        (
            COLLECTIVE,
            tally(worker=Counts(active=1, succeeded=1)),
            Running("PaddleJob default/resnet is running."),
        ),
        (
            COLLECTIVE,
            tally(worker=Counts(succeeded=2)),
            Succeeded("PaddleJob default/resnet successfully completed."),
        ),
        (
            COLLECTIVE,
            tally(worker=Counts(active=1, failed=1)),
            Failed("PaddleJob resnet is failed because 1 Worker replica(s) failed."),
        ),
        (SERVERS, tally(worker=Counts(active=2)), Undecided()),
        (SERVERS, tally(worker=Counts(succeeded=2)), Undecided()),
        (SERVERS, tally(master=Counts(active=1)), Running("PaddleJob ctr is running.")),
        (SERVERS, tally(master=Counts(active=1, succeeded=1)), Running("PaddleJob ctr is running.")),
        (
            SERVERS,
            tally(master=Counts(succeeded=2), worker=Counts(active=2)),
            Succeeded("PaddleJob ctr is successfully completed."),
        ),
        (
            SERVERS,
            tally(master=Counts(failed=1)),
            Failed("PaddleJob ctr is failed because 1 Master replica(s) failed."),
        ),
    ],
)
def test_outcome(given: Job, seen: Tally, verdict: Verdict) -> None:
    assert paddle.KIND.outcome(given, seen) == verdict


@pytest.mark.parametrize(
    ("written", "bounds"),
    [
        ({"minReplicas": 2}, (2, 2)),
        ({"maxReplicas": 4}, (4, 4)),
        ({"minReplicas": 1, "maxReplicas": 4}, (1, 4)),
        ({}, (3, 3)),
    ],
)
def test_one_elastic_bound_stands_for_the_other(written: dict[str, int], bounds: tuple[int, int]) -> None:
    given = job("PaddleJob", role("Worker", 3), options={"elasticPolicy": written})

    elastic = options(given)["elasticPolicy"]

    assert (elastic["minReplicas"], elastic["maxReplicas"]) == bounds


def test_masters_alone_count_as_one_elastic_worker() -> None:
    given = job("PaddleJob", role("Master", 2), options={"elasticPolicy": {}})

    assert options(given) == {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 1}}


def test_a_job_without_elastic_policy_gets_none() -> None:
    assert options(COLLECTIVE) == {}


def test_only_masters_lead() -> None:
    assert paddle.KIND.is_leader(SERVERS, declared(SERVERS, "master"), 0)
    assert not paddle.KIND.is_leader(COLLECTIVE, declared(COLLECTIVE, "worker"), 0)
