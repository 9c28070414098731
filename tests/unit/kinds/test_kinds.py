"""Laws that hold for every kind, whatever it trains with."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.build import CLUSTER, book, job, place, role, tally

from bireme import kinds
from bireme.kinds.contract import Injects, Kind, ScriptRole, Undecided
from bireme.model.job import Job, Naming, Restart, Role, replica_ids, replica_name

# What manifests rely on, one line for each kind and version.
TABLE = """
TFJob       kubeflow.org/v1        tfReplicaSpecs       tensorflow  tfjob-port:2222        tfjob-controller       Chief=Never,Evaluator=Never,Master=Never,PS=Never,Worker=Never
PyTorchJob  kubeflow.org/v1        pytorchReplicaSpecs  pytorch     pytorchjob-port:23456  pytorchjob-controller  Master=OnFailure,Worker=OnFailure
XGBoostJob  kubeflow.org/v1        xgbReplicaSpecs      xgboost     xgboostjob-port:9999   xgboostjob-controller  Master=Never,Worker=Never
PaddleJob   kubeflow.org/v1        paddleReplicaSpecs   paddle      master:36543           paddlejob-controller   Master=OnFailure,Worker=OnFailure
MXJob       kubeflow.org/v1        mxReplicaSpecs       mxnet       mxjob-port:9091        mxjob-controller       Scheduler=Never,Server=Never,Worker=Never,TunerTracker=Never,TunerServer=Never,Tuner=Never
JAXJob      kubeflow.org/v1        jaxReplicaSpecs      jax         jaxjob-port:6666       jaxjob-controller      Worker=Never
MPIJob      kubeflow.org/v1        mpiReplicaSpecs      -           -                      mpijob-controller      Launcher=Never,Worker=Never
MPIJob      kubeflow.org/v2beta1   mpiReplicaSpecs      -           -                      mpijob-controller      Launcher=OnFailure,Worker=Never
MPIJob      kubeflow.org/v1alpha2  mpiReplicaSpecs      -           -                      mpijob-controller      Launcher=OnFailure,Worker=Always
Job         batch/v1               -                    -           -                      job-controller         Pod=Recreate
"""  # noqa: E501 (a table is read by its columns)
ROWS = [line.split() for line in TABLE.strip().splitlines()]


def smallest(kind: str) -> Job:
    first = {"MPIJob": "Launcher", "Job": "Pod", "XGBoostJob": "Master"}.get(kind, "Worker")
    roles = [role(first)] if first in ("Pod", "Worker") else [role(first), role("Worker", 2)]
    return job(kind, *roles, options={"jobMode": "MXTrain"} if kind == "MXJob" else None)


def row(module: Kind, api_version: str) -> list[str]:
    name, number = module.port
    roles = ",".join(f"{one.key}={one.restart}" for one in module.role_types(api_version))
    port = f"{name}:{number}" if name else "-"
    return [
        module.name,
        api_version,
        module.specs or "-",
        module.container or "-",
        port,
        module.operator,
        roles,
    ]


def test_the_kinds_are_those_of_the_contract() -> None:
    known = [row(module, version) for module in kinds.KINDS for version in module.api_versions]

    assert sorted(known) == sorted(ROWS)


@pytest.mark.parametrize("kind", list(kinds.BY_NAME))
def test_a_kind_is_found_under_its_name(kind: str) -> None:
    assert kinds.named(kind).name == kind


def test_only_tensorflow_and_mpi_leave_the_other_containers_alone() -> None:
    spare = {kind for kind, module in kinds.BY_NAME.items() if module.injects is Injects.MAIN}

    assert spare == {"TFJob", "MPIJob"}


def test_only_the_pods_of_a_batch_job_work_alone() -> None:
    assert {kind for kind, module in kinds.BY_NAME.items() if module.independent} == {"Job"}


@pytest.mark.parametrize("kind", list(kinds.BY_NAME))
def test_the_smallest_job_is_complete_and_valid(kind: str) -> None:
    given = smallest(kind)
    module = kinds.named(kind)

    assert list(module.validate(given)) == []
    assert module.defaults(given) == given
    assert isinstance(given.options, module.Options)


@pytest.mark.parametrize("kind", list(kinds.BY_NAME))
def test_a_complete_job_survives_being_written_and_read(kind: str) -> None:
    given = smallest(kind)

    assert kinds.typed(msgspec.json.decode(msgspec.json.encode(given), type=Job)) == given


@pytest.mark.parametrize("kind", list(kinds.BY_NAME))
def test_nothing_is_decided_before_anything_runs(kind: str) -> None:
    assert kinds.named(kind).outcome(smallest(kind), tally()) == Undecided()


@pytest.mark.parametrize("kind", list(kinds.BY_NAME))
def test_only_known_roles_are_waited_for_and_files_are_unique(kind: str) -> None:
    given = smallest(kind)
    module = kinds.named(kind)
    names = {one.name for one in given.roles}
    paths = [one.path for one in module.files(given, frozenset(), CLUSTER)]

    assert all(name in names for one in given.roles for name in module.start_after(given, one))
    assert len(paths) == len(set(paths))


@pytest.mark.parametrize("kind", list(kinds.BY_NAME))
def test_wiring_names_each_variable_once_here_and_there(kind: str) -> None:
    given = smallest(kind)

    for one in replica_ids(given):
        for addresses in (CLUSTER, book(given)):
            wired = kinds.named(kind).wire(place(given, one.role, one.index, addresses))
            names = [variable.name for variable in wired]
            assert len(names) == len(set(names))


@pytest.mark.parametrize("kind", [kind for kind in kinds.BY_NAME if kind != "MPIJob"])
def test_no_cluster_name_is_left_in_the_environment_here(kind: str) -> None:
    given = smallest(kind)

    for one in replica_ids(given):
        wired = kinds.named(kind).wire(place(given, one.role, one.index, book(given)))
        assert not [value for value in wired if "-worker-" in value.value or "-master-" in value.value]


@pytest.mark.parametrize("kind", list(kinds.BY_NAME))
def test_everyone_is_wanted_at_first_and_idles_only_in_mpi(kind: str) -> None:
    given = smallest(kind)
    module = kinds.named(kind)

    assert set(module.wanted(given, frozenset())) == set(replica_ids(given))
    assert any(module.is_placeholder(given, one) for one in given.roles) is (kind == "MPIJob")


def test_names_follow_the_naming_of_the_role() -> None:
    given = smallest("JAXJob")

    def named(naming: Naming) -> str:
        return replica_name(given, Role("ps", "PS", 1, Restart.NEVER, given.roles[0].pod, "", naming), 3)

    assert named(Naming.ROLE_AND_INDEX) == "mnist-ps-3"
    assert named(Naming.ROLE) == "mnist-ps"
    assert named(Naming.INDEX) == "mnist-3"


@pytest.mark.parametrize(
    ("kind", "roles"),
    [
        ("PyTorchJob", "Master 1, Worker 2"),
        ("XGBoostJob", "Master 1, Worker 2"),
        ("TFJob", "Worker 3"),
        ("JAXJob", "Worker 3"),
        ("MXJob", "Scheduler 1 idle, Server 1 idle, Worker 3"),
        ("MPIJob", "Launcher 1 idle mpirun -np 3, Worker 3 silent"),
    ],
)
def test_a_script_on_three_workers_becomes_roles(kind: str, roles: str) -> None:
    def shown(found: ScriptRole) -> str:
        marks = [*([] if found.computes else ["idle"]), *([] if found.runs else ["silent"]), *found.before]
        return " ".join([found.key, str(found.replicas), *marks])

    assert ", ".join(map(shown, kinds.named(kind).script_roles(3))) == roles


def test_open_mpi_may_start_a_script_as_root() -> None:
    launcher, worker = kinds.named("MPIJob").script_roles(2)

    assert launcher.env == {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    assert not worker.env
