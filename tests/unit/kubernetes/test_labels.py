"""Labels and owners: what neighbours and users select the objects of a job by."""

from __future__ import annotations

import pytest

from bireme import kinds
from bireme.backends.kubernetes.objects import job_objects
from bireme.kinds.kubeflow_labels import JOB_ROLE
from tests.unit.kubernetes.making import V1, V1ALPHA2, V2BETA1, Made, made, mpi, template

ROLES = {
    "TFJob": ("Chief", "Worker"),
    "PyTorchJob": ("Master", "Worker"),
    "XGBoostJob": ("Master", "Worker"),
    "PaddleJob": ("Master", "Worker"),
    "JAXJob": ("Worker",),
}
OPERATORS = {
    "TFJob": "tfjob-controller",
    "PyTorchJob": "pytorchjob-controller",
    "XGBoostJob": "xgboostjob-controller",
    "PaddleJob": "paddlejob-controller",
    "JAXJob": "jaxjob-controller",
}


def given(kind: str, *roles: str) -> Made:
    return made(kind, {role: (1 if role != "Worker" else 2, template()) for role in roles})


def short(marks: dict[str, str]) -> dict[str, str]:
    return {name.removeprefix("training.kubeflow.org/"): value for name, value in marks.items()}


@pytest.mark.parametrize("kind", OPERATORS)
def test_a_replica_is_known_by_operator_job_type_and_index(kind: str) -> None:
    job = given(kind, *ROLES[kind])

    assert short(kinds.of(job.job).pod_labels(job.job, job.role("worker"), 1)) == {
        "operator-name": OPERATORS[kind],
        "job-name": "mnist",
        "replica-type": "worker",
        "replica-index": "1",
    }


@pytest.mark.parametrize(
    ("kind", "roles", "leaders"),
    [
        ("TFJob", ("Chief", "Worker"), ["chief-0"]),
        ("TFJob", ("Master", "Worker"), ["master-0"]),
        ("TFJob", ("PS", "Worker"), ["worker-0"]),
        ("PyTorchJob", ("Master", "Worker"), ["master-0"]),
        ("PyTorchJob", ("Worker",), ["worker-0"]),
        ("JAXJob", ("Worker",), ["worker-0"]),
        ("XGBoostJob", ("Master", "Worker"), ["master-0"]),
        ("PaddleJob", ("Master", "Worker"), ["master-0"]),
        ("PaddleJob", ("Worker",), []),
    ],
)
def test_the_master_role_is_marked(kind: str, roles: tuple[str, ...], leaders: list[str]) -> None:
    job = given(kind, *roles)

    marked = [
        f"{role.name}-{index}"
        for role in job.job.roles
        for index in range(role.replicas)
        if kinds.of(job.job).pod_labels(job.job, role, index).get(JOB_ROLE) == "master"
    ]

    assert marked == leaders


def test_the_launcher_of_mpi_v1_leads_and_has_no_index() -> None:
    job = mpi(V1)

    assert short(kinds.of(job.job).pod_labels(job.job, job.role("launcher"), 0)) == {
        "operator-name": "mpijob-controller",
        "job-name": "mnist",
        "replica-type": "launcher",
        "job-role": "master",
    }


@pytest.mark.parametrize(("trains", "launcher", "worker"), [(False, None, "1"), (True, "0", "2")])
def test_v2beta1_has_roles_instead_of_types(trains: bool, launcher: str | None, worker: str) -> None:
    job = mpi(V2BETA1, runLauncherAsWorker=trains)
    shared = {"operator-name": "mpi-operator", "job-name": "mnist"}

    first = short(kinds.of(job.job).pod_labels(job.job, job.role("launcher"), 0))
    second = short(kinds.of(job.job).pod_labels(job.job, job.role("worker"), 1))

    assert first == shared | {"job-role": "launcher"} | ({"replica-index": launcher} if launcher else {})
    assert second == shared | {"job-role": "worker", "replica-index": worker}


def test_v1alpha2_keeps_its_old_labels_and_is_selected_like_the_others() -> None:
    job = mpi(V1ALPHA2)

    assert short(kinds.of(job.job).pod_labels(job.job, job.role("worker"), 0)) == {
        "group_name": "kubeflow.org",
        "mpi_job_name": "mnist",
        "mpi_role_type": "worker",
        "operator-name": "mpijob-controller",
        "job-name": "mnist",
    }


@pytest.mark.parametrize("kind", OPERATORS)
def test_every_pod_is_within_the_selector_of_its_job(kind: str) -> None:
    job = given(kind, *ROLES[kind])

    for role in job.job.roles:
        assert (
            kinds.of(job.job).job_labels(job.job).items()
            <= kinds.of(job.job).pod_labels(job.job, role, 0).items()
        )


def test_objects_go_with_their_job() -> None:
    assert job_objects.owner(mpi(V2BETA1).job) == {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "name": "mnist",
        "uid": "job-uid",
        "controller": True,
        "blockOwnerDeletion": True,
    }


def test_a_selector_is_written_as_users_type_it() -> None:
    assert job_objects.selector({"a": "b", "c": "d"}) == "a=b,c=d"
