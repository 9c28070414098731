"""Labels and owners: what neighbours and users select the objects of a job by."""

from __future__ import annotations

import pytest

from bireme.backends.kubernetes.objects import labels
from bireme.model.job import Kind
from tests.unit.kubernetes.making import V1, V1ALPHA2, V2BETA1, Made, made, mpi, template

ROLES = {
    Kind.TENSORFLOW: ("Chief", "Worker"),
    Kind.PYTORCH: ("Master", "Worker"),
    Kind.XGBOOST: ("Master", "Worker"),
    Kind.PADDLE: ("Master", "Worker"),
    Kind.JAX: ("Worker",),
}
OPERATORS = {
    Kind.TENSORFLOW: "tfjob-controller",
    Kind.PYTORCH: "pytorchjob-controller",
    Kind.XGBOOST: "xgboostjob-controller",
    Kind.PADDLE: "paddlejob-controller",
    Kind.JAX: "jaxjob-controller",
}


def given(kind: Kind, *roles: str) -> Made:
    return made(kind, {role: (1 if role != "Worker" else 2, template()) for role in roles})


def short(marks: dict[str, str]) -> dict[str, str]:
    return {name.removeprefix("training.kubeflow.org/"): value for name, value in marks.items()}


@pytest.mark.parametrize("kind", OPERATORS)
def test_a_replica_is_known_by_operator_job_type_and_index(kind: Kind) -> None:
    job = given(kind, *ROLES[kind])

    assert short(labels.labels(job.job, job.role("worker"), 1)) == {
        "operator-name": OPERATORS[kind],
        "job-name": "mnist",
        "replica-type": "worker",
        "replica-index": "1",
    }


@pytest.mark.parametrize(
    ("kind", "roles", "leaders"),
    [
        (Kind.TENSORFLOW, ("Chief", "Worker"), ["chief-0"]),
        (Kind.TENSORFLOW, ("Master", "Worker"), ["master-0"]),
        (Kind.TENSORFLOW, ("PS", "Worker"), ["worker-0"]),
        (Kind.PYTORCH, ("Master", "Worker"), ["master-0"]),
        (Kind.PYTORCH, ("Worker",), ["worker-0"]),
        (Kind.JAX, ("Worker",), ["worker-0"]),
        (Kind.XGBOOST, ("Master", "Worker"), ["master-0"]),
        (Kind.PADDLE, ("Master", "Worker"), ["master-0"]),
        (Kind.PADDLE, ("Worker",), []),
    ],
)
def test_the_master_role_is_marked(kind: Kind, roles: tuple[str, ...], leaders: list[str]) -> None:
    job = given(kind, *roles)

    marked = [
        f"{role.name}-{index}"
        for role in job.job.roles
        for index in range(role.replicas)
        if labels.labels(job.job, role, index).get(labels.JOB_ROLE) == "master"
    ]

    assert marked == leaders


def test_the_launcher_of_mpi_v1_leads_and_has_no_index() -> None:
    job = mpi(V1)

    assert short(labels.labels(job.job, job.role("launcher"), 0)) == {
        "operator-name": "mpijob-controller",
        "job-name": "mnist",
        "replica-type": "launcher",
        "job-role": "master",
    }


@pytest.mark.parametrize(("trains", "launcher", "worker"), [(False, None, "1"), (True, "0", "2")])
def test_v2beta1_has_roles_instead_of_types(trains: bool, launcher: str | None, worker: str) -> None:
    job = mpi(V2BETA1, runLauncherAsWorker=trains)
    shared = {"operator-name": "mpi-operator", "job-name": "mnist"}

    first = short(labels.labels(job.job, job.role("launcher"), 0))
    second = short(labels.labels(job.job, job.role("worker"), 1))

    assert first == shared | {"job-role": "launcher"} | ({"replica-index": launcher} if launcher else {})
    assert second == shared | {"job-role": "worker", "replica-index": worker}


def test_v1alpha2_keeps_its_old_labels_and_is_selected_like_the_others() -> None:
    job = mpi(V1ALPHA2)

    assert short(labels.labels(job.job, job.role("worker"), 0)) == {
        "group_name": "kubeflow.org",
        "mpi_job_name": "mnist",
        "mpi_role_type": "worker",
        "operator-name": "mpijob-controller",
        "job-name": "mnist",
    }


@pytest.mark.parametrize("kind", OPERATORS)
def test_every_pod_is_within_the_selector_of_its_job(kind: Kind) -> None:
    job = given(kind, *ROLES[kind])

    for role in job.job.roles:
        assert labels.selector(job.job).items() <= labels.labels(job.job, role, 0).items()


def test_objects_go_with_their_job() -> None:
    assert labels.owner(mpi(V2BETA1).job) == {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "name": "mnist",
        "uid": "job-uid",
        "controller": True,
        "blockOwnerDeletion": True,
    }


def test_a_selector_is_written_as_users_type_it() -> None:
    assert labels.written({"a": "b", "c": "d"}) == "a=b,c=d"
