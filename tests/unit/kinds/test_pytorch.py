"""PyTorchJob: rendezvous at the master or by torchrun, and who decides the job."""

from __future__ import annotations

import pytest
from tests.unit.build import book, container, declared, environment, job, place, role, tally

from bireme.kinds import pytorch
from bireme.kinds.contract import Failed, Running, Succeeded, Tally, Undecided, Verdict
from bireme.model.job import Job, RunPolicy
from bireme.model.status import Counts

DDP = job("PyTorchJob", role("Master"), role("Worker", 2), name="ddp")
WORKERS = job("PyTorchJob", role("Worker", 2), name="ddp")
ELASTIC = job("PyTorchJob", role("Worker", 2), name="ddp", options={"elasticPolicy": {"maxReplicas": 4}})


def test_the_master_is_rank_0_of_all() -> None:
    assert environment(place(DDP, "master")) == [
        "PYTHONUNBUFFERED=1",
        "MASTER_PORT=23456",
        "PET_MASTER_PORT=23456",
        "MASTER_ADDR=ddp-master-0",
        "PET_MASTER_ADDR=ddp-master-0",
        "WORLD_SIZE=3",
        "RANK=0",
        "PET_NODE_RANK=0",
        "PET_NPROC_PER_NODE=auto",
        "PET_NNODES=3",
    ]


def test_workers_come_after_the_master() -> None:
    assert {"RANK=2", "PET_NODE_RANK=2"} <= set(environment(place(DDP, "worker", 1)))


@pytest.mark.parametrize(("nproc", "size"), [("auto", 3), ("gpu", 3), ("4", 12)])
def test_processes_per_node_count_where_they_are_a_number(nproc: str, size: int) -> None:
    given = job("PyTorchJob", role("Master"), role("Worker", 2), options={"nprocPerNode": nproc})

    wired = environment(place(given, "master"))

    assert f"WORLD_SIZE={size}" in wired
    assert f"PET_NPROC_PER_NODE={nproc}" in wired
    assert "PET_NNODES=3" in wired


def test_workers_alone_have_no_master() -> None:
    assert environment(place(WORKERS, "worker", 1)) == [
        "PYTHONUNBUFFERED=1",
        "PET_NPROC_PER_NODE=auto",
        "PET_NNODES=2",
    ]


def test_a_declared_port_counts_and_here_the_book_does() -> None:
    given = job("PyTorchJob", role("Master", 1, container(ports={"pytorchjob-port": 7001})), role("Worker"))

    there = environment(place(given, "worker"))
    here = environment(place(given, "worker", 0, book(given, first=40000)))

    assert {"MASTER_PORT=7001", "MASTER_ADDR=mnist-master-0"} <= set(there)
    assert {"MASTER_PORT=40000", "PET_MASTER_PORT=40000", "MASTER_ADDR=127.0.0.1"} <= set(here)


def test_elastic_workers_meet_at_the_first() -> None:
    assert environment(place(ELASTIC, "worker", 1)) == [
        "PYTHONUNBUFFERED=1",
        "PET_NPROC_PER_NODE=auto",
        "PET_RDZV_ENDPOINT=ddp-worker-0:23456",
        "PET_RDZV_BACKEND=c10d",
        "PET_NNODES=4:4",
    ]


def test_here_elastic_workers_meet_at_the_address_of_the_book() -> None:
    here = environment(place(ELASTIC, "worker", 1, book(ELASTIC, first=40000)))

    assert "PET_RDZV_ENDPOINT=127.0.0.1:40000" in here


def test_every_elastic_setting_reaches_torchrun() -> None:
    policy = {
        "minReplicas": 1,
        "maxReplicas": 3,
        "rdzvBackend": "etcd",
        "rdzvPort": 2379,
        "rdzvHost": "etcd.ml",
        "rdzvId": "run-7",
        "rdzvConf": [{"key": "timeout", "value": "30"}, {"key": "join", "value": "5"}],
        "standalone": True,
        "nProcPerNode": 2,
        "maxRestarts": 9,
    }
    given = job("PyTorchJob", role("Worker", 2), options={"elasticPolicy": policy})

    assert environment(place(given, "worker")) == [
        "PYTHONUNBUFFERED=1",
        "PET_RDZV_ENDPOINT=etcd.ml:2379",
        "PET_RDZV_BACKEND=etcd",
        "PET_NNODES=1:3",
        "PET_MAX_RESTARTS=9",
        "PET_NPROC_PER_NODE=2",
        "PET_RDZV_ID=run-7",
        "PET_RDZV_CONF=timeout=30,join=5",
        "PET_STANDALONE=",
    ]


@pytest.mark.parametrize(
    ("written", "nodes"),
    [
        ({}, "2:2"),
        ({"minReplicas": 1}, "1:1"),
        ({"maxReplicas": 5}, "5:5"),
        ({"minReplicas": 1, "maxReplicas": 5}, "1:5"),
    ],
)
def test_one_elastic_bound_stands_for_the_other(written: dict[str, int], nodes: str) -> None:
    given = job("PyTorchJob", role("Worker", 2), options={"elasticPolicy": written})

    assert f"PET_NNODES={nodes}" in environment(place(given, "worker"))


def test_a_master_alone_counts_as_one_elastic_worker() -> None:
    given = job("PyTorchJob", role("Master"), options={"elasticPolicy": {}})

    elastic = pytorch.options(given).elastic_policy

    assert elastic is not None
    assert (elastic.min_replicas, elastic.max_replicas) == (1, 1)


def test_a_rank_can_have_the_whole_environment_of_torchrun() -> None:
    given = job(
        "PyTorchJob",
        role("Master"),
        role("Worker", 2),
        name="ddp",
        policy=RunPolicy(backoff_limit=3),
        torchrun_environment=True,
    )

    here = environment(place(given, "worker", 1, book(given), attempt=2))
    there = environment(place(given, "worker", 1, attempt=2))

    assert here[-13:] == [
        "LOCAL_RANK=2",
        "LOCAL_WORLD_SIZE=3",
        "GROUP_RANK=0",
        "GROUP_WORLD_SIZE=1",
        "ROLE_NAME=default",
        "ROLE_RANK=2",
        "ROLE_WORLD_SIZE=3",
        "TORCHELASTIC_RESTART_COUNT=2",
        "TORCHELASTIC_MAX_RESTARTS=3",
        "TORCHELASTIC_RUN_ID=ddp",
        "TORCHELASTIC_USE_AGENT_STORE=False",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
        "?OMP_NUM_THREADS=1",
    ]
    assert {"LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1", "GROUP_RANK=2", "GROUP_WORLD_SIZE=3"} <= set(there)
    assert not [line for line in there if "OMP_NUM_THREADS" in line]


@pytest.mark.parametrize(
    ("given", "seen", "verdict"),
    [
        (DDP, tally(), Undecided()),
        (DDP, tally(worker=Counts(active=2)), Undecided()),
        (DDP, tally(master=Counts(active=1)), Running("PyTorchJob ddp is running.")),
        (
            DDP,
            tally(master=Counts(succeeded=1), worker=Counts(active=1, failed=1)),
            Succeeded("PyTorchJob ddp is successfully completed."),
        ),
        (
            DDP,
            tally(master=Counts(active=1), worker=Counts(failed=1)),
            Failed("PyTorchJob ddp is failed because 1 Worker replica(s) failed."),
        ),
        (WORKERS, tally(), Undecided()),
        (
            WORKERS,
            tally(worker=Counts(active=1, succeeded=1)),
            Running("PyTorchJob default/ddp is running."),
        ),
        (
            WORKERS,
            tally(worker=Counts(succeeded=2)),
            Succeeded("PyTorchJob default/ddp successfully completed."),
        ),
        (
            WORKERS,
            tally(worker=Counts(active=1, failed=1)),
            Failed("PyTorchJob ddp is failed because 1 Worker replica(s) failed."),
        ),
        (
            ELASTIC,
            tally(worker=Counts(active=1, succeeded=1)),
            Succeeded("PyTorchJob default/ddp successfully completed."),
        ),
    ],
)
def test_outcome(given: Job, seen: Tally, verdict: Verdict) -> None:
    assert pytorch.KIND.outcome(given, seen) == verdict


RANKS = job("PyTorchJob", role("Master"), role("Worker"), name="ddp", torchrun_environment=True)
BOTH = ("ddp-master-0", "ddp-worker-0")


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        (tally(), Undecided()),
        (tally(worker=Counts(active=1)), Running("PyTorchJob ddp is running.")),
        (
            tally(BOTH[:1], master=Counts(succeeded=1), worker=Counts(active=1)),
            Running("PyTorchJob ddp is running."),
        ),
        (
            tally(BOTH, master=Counts(succeeded=1), worker=Counts(succeeded=1)),
            Succeeded("PyTorchJob ddp is successfully completed."),
        ),
        (
            tally(BOTH[:1], master=Counts(succeeded=1), worker=Counts(failed=1)),
            Failed("PyTorchJob ddp is failed because 1 Worker replica(s) failed."),
        ),
    ],
)
def test_where_replicas_are_ranks_all_must_succeed(seen: Tally, verdict: Verdict) -> None:
    assert pytorch.KIND.outcome(RANKS, seen) == verdict


@pytest.mark.parametrize(
    ("given", "problems"),
    [
        (DDP, []),
        (ELASTIC, []),
        (
            job("PyTorchJob", role("Master", 2), role("Worker", 0)),
            [
                ("spec.pytorchReplicaSpecs[Master].replicas", "Forbidden: must be 1"),
                ("spec.pytorchReplicaSpecs[Worker].replicas", "Forbidden: must be at least 1"),
            ],
        ),
        (
            job(
                "PyTorchJob",
                role("Master"),
                options={"elasticPolicy": {"nProcPerNode": 2}, "nprocPerNode": "2"},
            ),
            [
                (
                    "spec.pytorchReplicaSpecs[Worker]",
                    "Required value: must be configured if elastic policy is used",
                ),
                ("spec.elasticPolicy.nProcPerNode", "Forbidden: must not be used with spec.nprocPerNode"),
            ],
        ),
    ],
)
def test_problems(given: Job, problems: list[tuple[str, str]]) -> None:
    assert [(one.field, one.text) for one in pytorch.KIND.validate(given)] == problems


def test_the_master_leads_and_without_one_the_first_worker() -> None:
    assert pytorch.KIND.is_leader(DDP, declared(DDP, "master"), 0)
    assert not pytorch.KIND.is_leader(DDP, declared(DDP, "worker"), 0)
    leaders = [pytorch.KIND.is_leader(WORKERS, declared(WORKERS, "worker"), index) for index in range(2)]
    assert leaders == [True, False]
