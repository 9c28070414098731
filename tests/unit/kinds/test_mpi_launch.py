"""MPIJob: what the launcher's MPI is told, in three versions and with three implementations."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.build import CLUSTER, book, container, environment, job, place, role

from bireme.kinds import mpi
from bireme.kinds.mpi_spec import V1, V1ALPHA2, V2BETA1
from bireme.model.decisions import SharedFile
from bireme.model.job import Job
from bireme.model.pods import Resources
from bireme.model.replicas import Addresses

BLANK = ["NVIDIA_VISIBLE_DEVICES=", "NVIDIA_DRIVER_CAPABILITIES="]
GPU = Resources(devices={"nvidia.com/gpu": 1})


def horovod(api_version: str, workers: int = 2, gpu: bool = False, **options: object) -> Job:
    launcher = container("mpirun", "python", "train.py", limits=GPU if gpu else None)
    return job(
        "MPIJob",
        role("Launcher", 1, launcher),
        role("Worker", workers),
        name="pi",
        namespace="ml",
        api_version=api_version,
        options=options,
    )


# Variables.

OPEN_MPI_V1 = [
    "OMPI_MCA_plm_rsh_agent=/etc/mpi/kubexec.sh",
    "OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile",
]
OPEN_MPI_5_V1 = [
    "PRTE_MCA_plm_ssh_agent=/etc/mpi/kubexec.sh",
    "PRTE_MCA_prte_default_hostfile=/etc/mpi/hostfile",
]
INTEL_V1 = ["?I_MPI_HYDRA_BOOTSTRAP=rsh", "?I_MPI_HYDRA_BOOTSTRAP_EXEC=/etc/mpi/kubexec.sh"]
OPEN_MPI_V2 = [
    "OMPI_MCA_orte_keep_fqdn_hostnames=true",
    "OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile",
    "OMPI_MCA_plm_rsh_args=-o ConnectionAttempts=10",
    "OMPI_MCA_orte_set_default_slots=4",
]
OPEN_MPI_5_V2 = [
    "PRTE_MCA_plm_ssh_args=-o ConnectionAttempts=10",
    "PRTE_MCA_prte_default_hostfile=/etc/mpi/hostfile",
    "PRTE_MCA_prte_keep_fqdn_hostnames=true",
    "PRTE_MCA_prte_set_default_slots=4",
]


def test_v1_starts_commands_through_the_agent_and_prepares_for_intel_too() -> None:
    assert environment(place(horovod(V1), "launcher")) == [*OPEN_MPI_V1, *BLANK, *OPEN_MPI_5_V1, *INTEL_V1]


def test_v1_leaves_the_gpus_to_a_launcher_that_asks_for_some() -> None:
    assert environment(place(horovod(V1, gpu=True), "launcher")) == [
        *OPEN_MPI_V1,
        *OPEN_MPI_5_V1,
        *INTEL_V1,
    ]


@pytest.mark.parametrize(
    ("distribution", "variables"),
    [
        ("OpenMPI", [*OPEN_MPI_V1, *BLANK, *OPEN_MPI_5_V1]),
        (
            "IntelMPI",
            [
                "I_MPI_HYDRA_BOOTSTRAP_EXEC=/etc/mpi/kubexec.sh",
                "I_MPI_HYDRA_HOST_FILE=/etc/mpi/hostfile",
                *BLANK,
            ],
        ),
        (
            "MPICH",
            ["HYDRA_LAUNCHER_EXEC=/etc/mpi/kubexec.sh", "HYDRA_HOST_FILE=/etc/mpi/hostfile", *BLANK],
        ),
    ],
)
def test_v1alpha2_hides_the_gpus_from_every_launcher(distribution: str, variables: list[str]) -> None:
    given = horovod(V1ALPHA2, gpu=True, mpiDistribution=distribution)

    assert environment(place(given, "launcher")) == variables


@pytest.mark.parametrize(
    ("implementation", "variables"),
    [
        ("OpenMPI", [*OPEN_MPI_V2, *BLANK, *OPEN_MPI_5_V2]),
        (
            "Intel",
            [
                "I_MPI_HYDRA_HOST_FILE=/etc/mpi/hostfile",
                "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS=-o ConnectionAttempts=10",
                "I_MPI_PERHOST=4",
                *BLANK,
            ],
        ),
        (
            "MPICH",
            [
                "HYDRA_HOST_FILE=/etc/mpi/hostfile",
                "HYDRA_LAUNCH_EXTRA_ARGS=-o ConnectionAttempts=10",
                *BLANK,
            ],
        ),
    ],
)
def test_v2beta1_starts_commands_through_ssh_in_a_cluster(implementation: str, variables: list[str]) -> None:
    given = horovod(V2BETA1, slotsPerWorker=4, mpiImplementation=implementation)

    assert environment(place(given, "launcher")) == ["K_MPI_JOB_ROLE=launcher", *variables]


def test_v2beta1_leaves_the_gpus_to_a_launcher_that_trains() -> None:
    given = horovod(V2BETA1, slotsPerWorker=4, runLauncherAsWorker=True)

    assert environment(place(given, "launcher")) == [
        "K_MPI_JOB_ROLE=launcher",
        *OPEN_MPI_V2,
        *OPEN_MPI_5_V2,
    ]


@pytest.mark.parametrize(
    ("implementation", "agents"),
    [
        (
            "OpenMPI",
            [
                "OMPI_MCA_plm_rsh_agent=/etc/mpi/kubexec.sh",
                "PRTE_MCA_plm_ssh_agent=/etc/mpi/kubexec.sh",
                "PRTE_MCA_prte_default_hostfile=/etc/mpi/one_host",
            ],
        ),
        ("Intel", ["I_MPI_HYDRA_BOOTSTRAP_EXEC=/etc/mpi/kubexec.sh"]),
        ("MPICH", ["HYDRA_LAUNCHER_EXEC=/etc/mpi/kubexec.sh"]),
    ],
)
def test_here_v2beta1_starts_commands_through_the_agent_as_well(
    implementation: str, agents: list[str]
) -> None:
    given = horovod(V2BETA1, mpiImplementation=implementation)

    there = environment(place(given, "launcher"))
    here = environment(place(given, "launcher", addresses=book(given)))

    assert sorted(set(here) - set(there)) == sorted(agents)
    assert {name.partition("=")[0] for name in there} <= {name.partition("=")[0] for name in here}


@pytest.mark.parametrize(
    ("implementation", "agents"),
    [
        (
            "OpenMPI",
            ["OMPI_MCA_plm_rsh_agent=/etc/mpi/kubexec.sh", "PRTE_MCA_plm_ssh_agent=/etc/mpi/kubexec.sh"],
        ),
        ("Intel", ["I_MPI_HYDRA_BOOTSTRAP_EXEC=/etc/mpi/kubexec.sh"]),
        ("MPICH", ["HYDRA_LAUNCHER_EXEC=/etc/mpi/kubexec.sh"]),
    ],
)
def test_v2beta1_may_choose_the_agent_in_a_cluster(implementation: str, agents: list[str]) -> None:
    given = horovod(V2BETA1, mpiImplementation=implementation)
    chosen = replace(given, annotations={"bireme.io/mpi-agent": "exec"})

    by_ssh = environment(place(given, "launcher"))
    by_agent = environment(place(chosen, "launcher"))

    assert sorted(set(by_agent) - set(by_ssh)) == sorted(agents)
    assert set(by_ssh) <= set(by_agent)


@pytest.mark.parametrize(
    ("api_version", "workers", "alone"), [(V1, 60, False), (V1, 61, True), (V2BETA1, 61, False)]
)
def test_where_only_the_launcher_has_an_agent_it_starts_every_worker_itself(
    api_version: str, workers: int, alone: bool
) -> None:
    given = horovod(api_version, workers)
    there = environment(place(given, "launcher"))

    assert ("OMPI_MCA_plm_rsh_no_tree_spawn=1" in there) is alone
    assert ("PRTE_MCA_plm_ssh_no_tree_spawn=1" in there) is alone
    assert not any("tree" in line for line in environment(place(given, "launcher", addresses=book(given))))


@pytest.mark.parametrize(
    ("api_version", "variables"),
    [(V1ALPHA2, []), (V1, []), (V2BETA1, ["K_MPI_JOB_ROLE=worker"])],
)
def test_workers_are_told_next_to_nothing(api_version: str, variables: list[str]) -> None:
    assert environment(place(horovod(api_version), "worker", 1)) == variables


# Files.


def hostfile(given: Job, addresses: Addresses = CLUSTER) -> str:
    return _file(given, "/etc/mpi/hostfile", frozenset(), addresses).text


def discovery(given: Job, *ready: str, addresses: Addresses = CLUSTER) -> str:
    return _file(given, "/etc/mpi/discover_hosts.sh", frozenset(ready), addresses).text


def _file(given: Job, path: str, ready: frozenset[str], addresses: Addresses) -> SharedFile:
    return next(one for one in mpi.KIND.files(given, ready, addresses) if one.path == path)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (horovod(V1), "pi-worker-0 slots=1\npi-worker-1 slots=1\n"),
        (horovod(V1, slotsPerWorker=8), "pi-worker-0 slots=8\npi-worker-1 slots=8\n"),
        (horovod(V1, workers=1, gpu=True), "pi-launcher slots=1\npi-worker-0 slots=1\n"),
        (horovod(V1, workers=0), ""),
        (horovod(V1ALPHA2), "pi-worker-0 slots=1\npi-worker-1 slots=1\n"),
        (horovod(V1ALPHA2, workers=1, gpu=True), "pi-worker-0 slots=1\n"),
        (horovod(V1ALPHA2, slotsPerWorker=2, mpiDistribution="IntelMPI"), "pi-worker-0:2\npi-worker-1:2\n"),
        (horovod(V1ALPHA2, slotsPerWorker=2, mpiDistribution="MPICH"), "pi-worker-0:2\npi-worker-1:2\n"),
        (
            horovod(V2BETA1, slotsPerWorker=2),
            "pi-worker-0.pi.ml.svc slots=2\npi-worker-1.pi.ml.svc slots=2\n",
        ),
        (horovod(V2BETA1, workers=1, gpu=True), "pi-worker-0.pi.ml.svc slots=1\n"),
        (
            horovod(V2BETA1, workers=1, runLauncherAsWorker=True),
            "pi-launcher.pi.ml.svc slots=1\npi-worker-0.pi.ml.svc slots=1\n",
        ),
        (
            horovod(V2BETA1, mpiImplementation="Intel", slotsPerWorker=2),
            "pi-worker-0.pi.ml.svc:2\npi-worker-1.pi.ml.svc:2\n",
        ),
        (horovod(V2BETA1, workers=1, mpiImplementation="MPICH"), "pi-worker-0.pi.ml.svc:1\n"),
    ],
)
def test_the_hostfile_names_every_worker(given: Job, text: str) -> None:
    assert hostfile(given) == text


def test_a_cluster_domain_is_appended_to_qualified_names() -> None:
    given = horovod(V2BETA1, workers=1)

    text = hostfile(given, Addresses(domain="cluster.local"))

    assert text == "pi-worker-0.pi.ml.svc.cluster.local slots=1\n"


@pytest.mark.parametrize("api_version", [V1ALPHA2, V1, V2BETA1])
def test_names_stay_the_same_here_because_the_agent_understands_them(api_version: str) -> None:
    given = horovod(api_version)

    assert hostfile(given, book(given)) == hostfile(given)


def test_discovery_tells_the_ready_workers_in_order_with_their_slots() -> None:
    given = horovod(V1, workers=3, slotsPerWorker=2)

    assert discovery(given) == "#!/bin/sh\n"
    assert discovery(given, "pi-worker-2", "pi-worker-0", "pi-launcher") == (
        "#!/bin/sh\necho pi-worker-0:2\necho pi-worker-2:2\n"
    )


def test_discovery_tells_a_training_launcher_first() -> None:
    assert discovery(horovod(V1, gpu=True), "pi-worker-0") == (
        "#!/bin/sh\necho pi-launcher:1\necho pi-worker-0:1\n"
    )
    assert discovery(horovod(V2BETA1, runLauncherAsWorker=True), "pi-worker-0") == (
        "#!/bin/sh\necho pi-launcher.pi.ml.svc:1\necho pi-worker-0.pi.ml.svc:1\n"
    )


def test_discovery_forgets_workers_that_were_scaled_away() -> None:
    given = horovod(V2BETA1, workers=1)

    assert discovery(given, "pi-worker-0", "pi-worker-1") == "#!/bin/sh\necho pi-worker-0.pi.ml.svc:1\n"


def test_only_the_script_is_executable() -> None:
    modes = {one.path: one.mode for one in mpi.KIND.files(horovod(V1), frozenset(), CLUSTER)}

    assert modes == {"/etc/mpi/hostfile": 0o444, "/etc/mpi/discover_hosts.sh": 0o555}


def test_here_open_mpi_5_is_told_of_one_host_with_all_slots() -> None:
    given = horovod(V2BETA1, slotsPerWorker=2)

    there = {file.path for file in mpi.KIND.files(given, frozenset(), CLUSTER)}
    here = {file.path: file.text for file in mpi.KIND.files(given, frozenset(), book(given))}

    assert "/etc/mpi/one_host" not in there
    assert here["/etc/mpi/one_host"] == "localhost slots=4\n"
