"""MPIJob: defaults of its three versions, and the launcher that decides."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit import build
from tests.unit.build import container, declared, job, member, role, tally

from bireme.kinds import mpi
from bireme.kinds.contract import Failed, Running, Succeeded, Tally, Undecided, Verdict
from bireme.kinds.mpi_spec import V1, V1ALPHA2, V2BETA1
from bireme.model.job import CleanPods, Job, Naming, Restart, Role, RunPolicy
from bireme.model.pods import Container
from bireme.model.status import Counts

VERSIONS = [V1ALPHA2, V1, V2BETA1]


def ring(
    api_version: str,
    *workers: Container,
    replicas: int = 2,
    launcher: Restart = Restart.ON_FAILURE,
    worker: Restart = Restart.NEVER,
    policy: RunPolicy | None = None,
    **options: object,
) -> Job:
    return job(
        "MPIJob",
        role("Launcher", restart=launcher),
        role("Worker", replicas, *workers, restart=worker),
        name="ring",
        api_version=api_version,
        policy=policy,
        options=options,
    )


# Roles and defaults.


@pytest.mark.parametrize(
    ("api_version", "launcher", "worker"),
    [
        (V1ALPHA2, Restart.ON_FAILURE, Restart.ALWAYS),
        (V1, Restart.NEVER, Restart.NEVER),
        (V2BETA1, Restart.ON_FAILURE, Restart.NEVER),
    ],
)
def test_each_version_has_restart_policies_of_its_own(
    api_version: str, launcher: Restart, worker: Restart
) -> None:
    first, second = mpi.KIND.role_types(api_version)

    assert (first.key, first.replicas, first.restart, first.naming) == ("Launcher", 1, launcher, Naming.ROLE)
    assert (second.key, second.replicas, second.restart) == ("Worker", 0, worker)


def test_the_launcher_has_no_number() -> None:
    assert member(ring(V1), "launcher").name == "ring-launcher"
    assert member(ring(V1), "worker", 1).name == "ring-worker-1"


@pytest.mark.parametrize(
    ("api_version", "written", "meant"),
    [
        (V1ALPHA2, Restart.ALWAYS, Restart.ON_FAILURE),
        (V1ALPHA2, Restart.EXIT_CODE, Restart.ON_FAILURE),
        (V1ALPHA2, Restart.ON_FAILURE, Restart.ON_FAILURE),
        (V1ALPHA2, Restart.NEVER, Restart.RECREATE),
        (V1, Restart.NEVER, Restart.NEVER),
        (V1, Restart.EXIT_CODE, Restart.EXIT_CODE),
        (V2BETA1, Restart.NEVER, Restart.RECREATE),
        (V2BETA1, Restart.ON_FAILURE, Restart.ON_FAILURE),
    ],
)
def test_a_launcher_that_behaves_as_a_batch_job_is_retried_even_under_never(
    api_version: str, written: Restart, meant: Restart
) -> None:
    assert declared(ring(api_version, launcher=written), "launcher").restart is meant


@pytest.mark.parametrize("written", list(Restart))
def test_v1alpha2_restarts_workers_always(written: Restart) -> None:
    assert declared(ring(V1ALPHA2, worker=written), "worker").restart is Restart.ALWAYS


@pytest.mark.parametrize(("api_version", "limit"), [(V1ALPHA2, 6), (V1, None), (V2BETA1, 6)])
def test_the_usual_backoff_limit_is_that_of_a_batch_job_where_the_launcher_is_like_one(
    api_version: str, limit: int | None
) -> None:
    assert ring(api_version).policy.backoff_limit == limit


def test_limits_outside_the_run_policy_are_moved_there() -> None:
    given = ring(V1ALPHA2, backoffLimit=2, activeDeadlineSeconds=60, cleanPodPolicy="Running")

    assert given.policy == RunPolicy(clean_pods=CleanPods.RUNNING, deadline=60, backoff_limit=2)
    assert build.options(given) == {"slotsPerWorker": 1}


def test_each_version_writes_down_the_defaults_of_fields_that_it_has() -> None:
    assert build.options(ring(V1)) == {"slotsPerWorker": 1}
    assert build.options(ring(V1ALPHA2, mpiDistribution="MPICH")) == {
        "slotsPerWorker": 1,
        "mpiDistribution": "MPICH",
    }
    assert build.options(ring(V2BETA1)) == {"slotsPerWorker": 1, "mpiImplementation": "OpenMPI"}


def test_the_run_policy_wins() -> None:
    within = RunPolicy(clean_pods=CleanPods.ALL, deadline=10, backoff_limit=0)

    given = ring(V1, policy=within, backoffLimit=2, activeDeadlineSeconds=60, cleanPodPolicy="Running")

    assert given.policy == within


def test_defaults_applied_twice_change_nothing() -> None:
    given = ring(V1ALPHA2, launcher=Restart.NEVER, backoffLimit=2, mpiDistribution="IntelMPI")

    assert mpi.KIND.defaults(given) == given


def test_the_main_container_of_workers_can_be_named() -> None:
    programs = container(name="side"), container(name="horovod")

    given = ring(V1, *programs, mainContainer="horovod")

    assert declared(given, "worker").main == "horovod"
    assert declared(given, "launcher").main == "main"


# Workers that only wait.


@pytest.mark.parametrize(
    ("api_version", "program", "idle"),
    [
        (V1, container(), True),
        (V1ALPHA2, container(""), True),
        (V1, container(args=("30",)), True),
        (V2BETA1, container(), True),
        (V2BETA1, container(args=("serve",)), False),
        (V2BETA1, container("/usr/sbin/sshd", args=("-De", "-f", "/home/mpiuser/.sshd_config")), True),
        (V2BETA1, container("/bin/sh", "-c", "/usr/sbin/sshd -p 2222; sleep infinity"), True),
        (V1, container("sleep", "365d"), False),
        (V1, container("python", "worker.py"), False),
        (V1, container("cat", "/etc/ssh/sshd_config"), False),
    ],
)
def test_a_worker_with_nothing_to_run_or_an_ssh_server_idles(
    api_version: str, program: Container, idle: bool
) -> None:
    given = ring(api_version, program)

    assert mpi.KIND.is_placeholder(given, declared(given, "worker")) is idle


def test_a_launcher_never_idles() -> None:
    given = ring(V1)

    assert not mpi.KIND.is_placeholder(given, declared(given, "launcher"))


@pytest.mark.parametrize("api_version", VERSIONS)
def test_an_empty_word_is_no_command(api_version: str) -> None:
    given = ring(api_version, container(""))

    assert declared(given, "worker").container.command == ()


# Order.


@pytest.mark.parametrize("api_version", VERSIONS)
def test_the_launcher_waits_for_the_workers(api_version: str) -> None:
    given = ring(api_version)

    assert mpi.KIND.start_after(given, declared(given, "launcher")) == ("worker",)
    assert mpi.KIND.start_after(given, declared(given, "worker")) == ()


@pytest.mark.parametrize("workers", [(), (role("Worker", 0),)])
def test_a_launcher_without_workers_starts_at_once(workers: tuple[Role, ...]) -> None:
    given = job("MPIJob", role("Launcher"), *workers, api_version=V1)

    assert mpi.KIND.start_after(given, declared(given, "launcher")) == ()


def test_the_launcher_leads() -> None:
    given = ring(V1)

    assert mpi.KIND.is_leader(given, declared(given, "launcher"), 0)
    assert not mpi.KIND.is_leader(given, declared(given, "worker"), 0)


# Outcome.

STARTING = tally(worker=Counts(active=2))
LAUNCHED = tally(launcher=Counts(active=1), worker=Counts(active=2))
SHRUNK = tally(launcher=Counts(active=1), worker=Counts(active=1))
WORKER_LOST = tally(launcher=Counts(active=1), worker=Counts(active=1, failed=1))
LOST_EARLY = tally(worker=Counts(active=1, failed=1))
LAUNCHER_LOST = tally(launcher=Counts(failed=1), worker=Counts(active=2))
ENDED = tally(("ring-launcher",), launcher=Counts(succeeded=1), worker=Counts(active=1, failed=1))

SHORT_RUNNING = Running("MPIJob ring is running.")
LONG_RUNNING = Running("MPIJob default/ring is running.")
LAUNCHER_FAILED = Failed("MPIJob ring is failed because 1 Launcher replica(s) failed.")
WORKER_FAILED = Failed("MPIJob ring is failed because 1 Worker replica(s) failed.")


@pytest.mark.parametrize(
    ("seen", "v1", "others"),
    [
        (tally(), Undecided(), Undecided()),
        (STARTING, Undecided(), Undecided()),
        (LAUNCHED, SHORT_RUNNING, LONG_RUNNING),
        (SHRUNK, SHORT_RUNNING, Undecided()),
        (WORKER_LOST, WORKER_FAILED, Undecided()),
        (LOST_EARLY, WORKER_FAILED, WORKER_FAILED),
        (LAUNCHER_LOST, LAUNCHER_FAILED, LAUNCHER_FAILED),
        (
            ENDED,
            Succeeded("MPIJob ring is successfully completed."),
            Succeeded("MPIJob default/ring successfully completed."),
        ),
    ],
)
def test_outcome(seen: Tally, v1: Verdict, others: Verdict) -> None:
    assert mpi.KIND.outcome(ring(V1), seen) == v1
    assert mpi.KIND.outcome(ring(V2BETA1), seen) == others
    assert mpi.KIND.outcome(ring(V1ALPHA2), seen) == others


def test_a_worker_that_ended_well_does_not_keep_the_job_from_running() -> None:
    seen = tally(("ring-worker-0",), launcher=Counts(active=1), worker=Counts(active=1, succeeded=1))

    assert mpi.KIND.outcome(ring(V2BETA1), seen) == LONG_RUNNING


# Problems.


def problems(given: Job) -> list[tuple[str, str]]:
    return [(one.field, one.text) for one in mpi.KIND.validate(given)]


@pytest.mark.parametrize("api_version", VERSIONS)
def test_a_usual_job_has_no_problem(api_version: str) -> None:
    assert problems(ring(api_version)) == []
    assert problems(ring(api_version, launcher=Restart.NEVER)) == []


@pytest.mark.parametrize(
    ("api_version", "field", "text"),
    [
        (V1, "spec.mpiReplicaSpecs", "MPIReplicaSpecs is not valid: Master ReplicaSpec must be present"),
        (V2BETA1, "spec.mpiReplicaSpecs[Launcher]", "Required value: must have Launcher replica spec"),
        (V1ALPHA2, "spec.mpiReplicaSpecs[Launcher]", "Required value: must have Launcher replica spec"),
    ],
)
def test_there_must_be_a_launcher(api_version: str, field: str, text: str) -> None:
    given = job("MPIJob", role("Worker"), api_version=api_version)

    assert problems(given) == [(field, text)]


@pytest.mark.parametrize(
    ("api_version", "text"),
    [
        (V1, "MPIReplicaSpecs is not valid: There must be only 1 launcher replica"),
        (V2BETA1, "Invalid value: 2: must be 1"),
        (V1ALPHA2, "Invalid value: 2: must be 1"),
    ],
)
def test_there_must_be_only_one_launcher(api_version: str, text: str) -> None:
    given = job("MPIJob", role("Launcher", 2), role("Worker"), api_version=api_version)

    assert ("spec.mpiReplicaSpecs[Launcher].replicas", text) in problems(given)


@pytest.mark.parametrize(
    ("api_version", "texts"),
    [
        (V1, []),
        (V2BETA1, ["Invalid value: 0: must be greater than or equal to 1"]),
        (V1ALPHA2, ["Invalid value: 0: must be greater than or equal to 1"]),
    ],
)
def test_only_v1_knows_no_workers(api_version: str, texts: list[str]) -> None:
    expected = [("spec.mpiReplicaSpecs[Worker].replicas", text) for text in texts]

    assert problems(ring(api_version, replicas=0)) == expected


@pytest.mark.parametrize(
    ("api_version", "slots", "texts"),
    [
        (V1, 0, []),
        (V2BETA1, 0, []),
        (V1ALPHA2, 0, ["Invalid value: 0: must be greater than or equal to 1"]),
        (V1, -1, ["Invalid value: -1: must be greater than or equal to 0"]),
        (V2BETA1, -1, ["Invalid value: -1: must be greater than or equal to 0"]),
    ],
)
def test_slots_are_not_negative(api_version: str, slots: int, texts: list[str]) -> None:
    expected = [("spec.slotsPerWorker", text) for text in texts]

    assert problems(ring(api_version, slotsPerWorker=slots)) == expected


@pytest.mark.parametrize("restart", [Restart.ALWAYS, Restart.EXIT_CODE])
def test_v2beta1_restarts_on_failure_or_never(restart: Restart) -> None:
    text = f'Unsupported value: "{restart}": supported values: "Never", "OnFailure"'

    assert problems(ring(V2BETA1, launcher=restart, worker=restart)) == [
        ("spec.mpiReplicaSpecs[Launcher].restartPolicy", text),
        ("spec.mpiReplicaSpecs[Worker].restartPolicy", text),
    ]
    assert problems(ring(V1, launcher=restart, worker=restart)) == []


def test_limits_are_not_negative() -> None:
    assert problems(ring(V1ALPHA2, backoffLimit=-1, activeDeadlineSeconds=-5)) == [
        ("spec.backoffLimit", "Invalid value: -1: must be greater than or equal to 0"),
        ("spec.activeDeadlineSeconds", "Invalid value: -5: must be greater than or equal to 0"),
    ]
    assert problems(ring(V1ALPHA2, backoffLimit=0, activeDeadlineSeconds=0)) == []


def test_a_main_container_that_no_worker_has_is_refused() -> None:
    assert problems(ring(V1, container(name="horovod"), mainContainer="mpi")) == [
        ("spec.mainContainer", 'Unsupported value: "mpi": supported values: "horovod"')
    ]


@pytest.mark.parametrize("agent", ["exec", "ssh"])
def test_the_agents_that_there_are_may_be_chosen(agent: str) -> None:
    given = msgspec.structs.replace(ring(V2BETA1), annotations={"bireme.io/mpi-agent": agent})

    assert problems(given) == []


def test_an_unknown_agent_is_refused() -> None:
    given = msgspec.structs.replace(ring(V2BETA1), annotations={"bireme.io/mpi-agent": "telnet"})

    assert problems(given) == [
        (
            "metadata.annotations[bireme.io/mpi-agent]",
            'Unsupported value: "telnet": supported values: "ssh", "exec"',
        )
    ]
