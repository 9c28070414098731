"""Names the labels and the owner by which the objects of a job are known, in every kind and version."""

from __future__ import annotations

from bireme import kinds
from bireme.backends.kubernetes.objects.api_types import Object
from bireme.kinds.mpi_spec import V1ALPHA2, V2BETA1, launcher_trains
from bireme.model.job import Job, Kind, Naming, Role

PREFIX = "training.kubeflow.org/"
OPERATOR_NAME = PREFIX + "operator-name"
JOB_NAME = PREFIX + "job-name"
REPLICA_TYPE = PREFIX + "replica-type"
REPLICA_INDEX = PREFIX + "replica-index"
JOB_ROLE = PREFIX + "job-role"

GROUP_NAME = "group_name"
MPI_JOB_NAME = "mpi_job_name"
MPI_ROLE_TYPE = "mpi_role_type"

ATTEMPT = "bireme.io/attempt"
"""On every pod that we make. Pods that another operator made for the same job have none, so that watches
select by `JOB_NAME`, which all of them carry."""
SUBMISSION = "bireme.io/submission"
"""The annotation by which a submission knows what it created itself: a request may be answered by a broken
connection, and its repetition by AlreadyExists."""
MAIN_CONTAINER = "bireme.io/main-container"
"""The annotation that names the container that trains, where that is not the first one."""

MPI_OPERATOR = "mpi-operator"
"""What the operator of v2beta1 calls itself, and what Kueue looks for."""


def labels(job: Job, role: Role, index: int) -> dict[str, str]:
    """The labels of one replica's pod, apart from its attempt."""
    if job.kind is Kind.MPI and job.api_version == V2BETA1:
        return selector(job) | _mpi_v2beta1(job, role, index)
    if job.kind is Kind.MPI and job.api_version == V1ALPHA2:
        old = {GROUP_NAME: "kubeflow.org", MPI_JOB_NAME: job.name, MPI_ROLE_TYPE: role.name}
        return old | selector(job)
    leads = {JOB_ROLE: "master"} if kinds.module(job.kind).is_leader(job, role, index) else {}
    return replica_selector(job, role, index) | leads


def selector(job: Job) -> dict[str, str]:
    """What all pods and services of a job have in common, and nobody else's."""
    is_v2beta1 = job.kind is Kind.MPI and job.api_version == V2BETA1
    operator = MPI_OPERATOR if is_v2beta1 else kinds.module(job.kind).OPERATOR
    return {OPERATOR_NAME: operator, JOB_NAME: job.name}


def replica_selector(job: Job, role: Role, index: int) -> dict[str, str]:
    """What selects the pod behind the service of one replica, whatever its attempt."""
    number = {} if role.naming is Naming.ROLE else {REPLICA_INDEX: str(index)}
    return {**selector(job), REPLICA_TYPE: role.name, **number}


def written(labels: dict[str, str]) -> str:
    """Labels as a selector is written: `a=b,c=d`."""
    return ",".join(f"{name}={value}" for name, value in labels.items())


def owner(job: Job) -> Object:
    """The reference by which an object goes when its job does."""
    return {
        "apiVersion": job.api_version,
        "kind": str(job.kind),
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _mpi_v2beta1(job: Job, role: Role, index: int) -> dict[str, str]:
    """The index counts all pods in which ranks run, so a launcher that trains is the first."""
    if role.name == "launcher":
        return {JOB_ROLE: role.name} | ({REPLICA_INDEX: "0"} if launcher_trains(job) else {})
    return {JOB_ROLE: role.name, REPLICA_INDEX: str(index + (1 if launcher_trains(job) else 0))}
