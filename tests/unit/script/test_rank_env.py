"""Does a process know its rank, whoever launched it?"""

from __future__ import annotations

import json

import pytest

from bireme.runtime.script.rank_env import RankEnv, read_rank_env

CLUSTER = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1", "e:1"]}


def tensorflow(role: str, index: int, cluster: object = CLUSTER) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})}


def ranks(found: RankEnv) -> tuple[str, int, int, int, int]:
    return found.launcher, found.rank, found.world_size, found.local_rank, found.local_world_size


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        pytest.param({}, ("nothing", 0, 1, 0, 1), id="nobody"),
        pytest.param(
            {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"},
            ("torchrun", 3, 4, 1, 2),
            id="torchrun",
        ),
        pytest.param(
            {
                "NODE_RANK": "0",
                "LOCAL_RANK": "1",
                "WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": "1234",
            },
            ("lightning", 1, 2, 1, 2),
            id="a process that Lightning started",
        ),
        pytest.param(
            {"NODE_RANK": "0", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "node-0"},
            ("nothing", 0, 1, 0, 1),
            id="a process that Lightning started on the first of several nodes",
        ),
        pytest.param(
            {"NODE_RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "node-0"},
            ("nothing", 0, 1, 0, 1),
            id="a process that Lightning started on the second of several nodes",
        ),
        pytest.param({"RANK": "1", "WORLD_SIZE": "2"}, ("torchrun", 1, 2, 0, 1), id="a pod of a PyTorchJob"),
        pytest.param(
            {
                "OMPI_COMM_WORLD_RANK": "5",
                "OMPI_COMM_WORLD_SIZE": "8",
                "OMPI_COMM_WORLD_LOCAL_RANK": "1",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
            },
            ("mpirun", 5, 8, 1, 4),
            id="Open MPI",
        ),
        pytest.param(
            {"PMI_RANK": "2", "PMI_SIZE": "4", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2"},
            ("mpirun", 2, 4, 0, 2),
            id="MPICH",
        ),
        pytest.param(
            {
                "HOROVOD_RANK": "1",
                "HOROVOD_SIZE": "2",
                "HOROVOD_LOCAL_RANK": "1",
                "HOROVOD_LOCAL_SIZE": "2",
                "OMPI_COMM_WORLD_RANK": "1",
                "OMPI_COMM_WORLD_SIZE": "2",
            },
            ("horovodrun", 1, 2, 1, 2),
            id="horovodrun",
        ),
        pytest.param({"PROCESS_ID": "1", "NUM_PROCESSES": "3"}, ("jax", 1, 3, 0, 1), id="JAXJob"),
        pytest.param(
            {"PADDLE_TRAINER_ID": "1", "PADDLE_TRAINERS_NUM": "2"}, ("paddle", 1, 2, 0, 1), id="Paddle"
        ),
        pytest.param(
            {"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_LOCALID": "1", "SLURM_STEP_ID": "0"},
            ("slurm", 3, 4, 1, 1),
            id="srun",
        ),
        pytest.param(tensorflow("chief", 0), ("tensorflow", 0, 3, 0, 1), id="chief"),
        pytest.param(tensorflow("worker", 1), ("tensorflow", 2, 3, 0, 1), id="worker after the chief"),
    ],
)
def test_the_ranks_of_every_launcher(
    environ: dict[str, str], expected: tuple[str, int, int, int, int]
) -> None:
    assert ranks(read_rank_env(environ)) == expected


@pytest.mark.parametrize(
    "environ",
    [
        pytest.param({"RANK": "1"}, id="half of torchrun's"),
        pytest.param({"RANK": "4", "WORLD_SIZE": "2"}, id="a rank outside of its world"),
        pytest.param({"RANK": "one", "WORLD_SIZE": "two"}, id="words"),
        pytest.param({"TF_CONFIG": "{not json"}, id="broken TF_CONFIG"),
        pytest.param({"TF_CONFIG": "[]"}, id="TF_CONFIG of another shape"),
        pytest.param({"TF_CONFIG": '{"task": "worker"}'}, id="TF_CONFIG with a task of another shape"),
        pytest.param(tensorflow("worker", 0, {"worker": 3}), id="TF_CONFIG with a number of workers"),
        pytest.param(tensorflow("worker", 5), id="a worker outside of its cluster"),
        pytest.param(
            {"TF_CONFIG": '{"task": {"type": "worker", "index": "x"}}'}, id="a worker without a number"
        ),
        pytest.param({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, id="no step of Slurm"),
        pytest.param(
            {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_STEP_ID": "4294967291"},
            id="the batch script of a Slurm job",
        ),
    ],
)
def test_what_names_no_rank_is_one_process_alone(environ: dict[str, str]) -> None:
    assert ranks(read_rank_env(environ)) == ("nothing", 0, 1, 0, 1)


def test_the_innermost_launcher_knows_the_ranks() -> None:
    torchrun_on_each_node = {
        "OMPI_COMM_WORLD_RANK": "1",
        "OMPI_COMM_WORLD_SIZE": "2",
        "RANK": "5",
        "WORLD_SIZE": "8",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "4",
    }

    assert ranks(read_rank_env(torchrun_on_each_node)) == ("torchrun", 5, 8, 1, 4)


def test_an_evaluator_is_not_a_rank_though_the_cluster_does_not_know_it() -> None:
    found = read_rank_env(tensorflow("evaluator", 0))

    assert (found.role, found.trains, found.rank, found.world_size) == ("evaluator", False, 0, 1)


def test_a_parameter_server_is_not_a_rank() -> None:
    found = read_rank_env(tensorflow("ps", 1))

    assert (found.role, found.trains) == ("ps", False)
    assert (found.rank, found.world_size) == (1, 2)


def test_a_rank_that_has_its_launchers_environment_is_still_a_worker() -> None:
    ranks = {"HOROVOD_RANK": "0", "HOROVOD_SIZE": "2"}

    assert read_rank_env({**ranks, "BIREME_ROLE": "launcher"}).role == "worker"
    assert read_rank_env({"BIREME_ROLE": "launcher"}).role == "launcher"


def test_a_run_of_ours_has_a_name_a_folder_and_an_attempt() -> None:
    found = read_rank_env(
        {
            "RANK": "0",
            "WORLD_SIZE": "2",
            "BIREME_RUN": "train-abcd/3",
            "BIREME_RUN_DIR": "/runs/train-abcd",
            "BIREME_ATTEMPT": "3",
            "BIREME_ROLE": "Worker",
        }
    )

    assert (found.launcher, found.run, found.attempt, found.role) == ("bireme", "train-abcd", 3, "worker")
    assert found.folder == "/runs/train-abcd"
    assert found.is_on_one_machine


def test_ranks_share_a_machine_only_if_somebody_says_so() -> None:
    assert read_rank_env({}).is_on_one_machine
    assert read_rank_env({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}).is_on_one_machine
    assert not read_rank_env({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}).is_on_one_machine
    assert not read_rank_env({"RANK": "0", "WORLD_SIZE": "2"}).is_on_one_machine


def test_a_restart_of_torchrun_is_an_attempt() -> None:
    assert read_rank_env({"RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RESTART_COUNT": "2"}).attempt == 2


def test_a_launch_is_told_apart_where_nobody_gives_run_and_attempt() -> None:
    one = read_rank_env({"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "29500", "MASTER_ADDR": "localhost"})
    same = read_rank_env(
        {"RANK": "1", "WORLD_SIZE": "2", "MASTER_PORT": "29500", "MASTER_ADDR": "job-master-0"}
    )
    other = read_rank_env({"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "29501"})

    assert one.launch
    assert one.launch == same.launch
    assert one.launch != other.launch
    assert read_rank_env({"BIREME_RUN": "train-abcd/", "MASTER_PORT": "1"}).launch
    assert (
        read_rank_env({"BIREME_RUN": "train-abcd/0", "BIREME_ATTEMPT": "0", "MASTER_PORT": "1"}).launch == ""
    )
