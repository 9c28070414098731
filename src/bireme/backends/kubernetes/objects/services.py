"""Under which names do the replicas of a job find each other: its headless services."""

from __future__ import annotations

from bireme import kinds
from bireme.backends.kubernetes.objects import labels
from bireme.backends.kubernetes.objects.raw import Object
from bireme.kinds.mpi_spec import V2BETA1
from bireme.model.job import Job, Kind, Role, member_name


def service(job: Job, role: Role, index: int) -> Object | None:
    """The service through which one replica is found; None for a kind whose replicas are not looked up.

    It is called like the replica's pod. All replicas of an MPIJob of v2beta1 share one, called like the job.
    """
    if job.kind is Kind.MPI:
        return _shared(job) if job.api_version == V2BETA1 else None
    if not kinds.module(job.kind).PORT[0]:
        return None
    marks = labels.replica_selector(job, role, index)
    return _headless(job, member_name(job, role, index), marks, {"selector": marks, "ports": _ports(role)})


def _shared(job: Job) -> Object:
    marks = labels.selector(job)
    return _headless(job, job.name, {"app": job.name, **marks}, {"selector": marks})


def _headless(job: Job, name: str, marks: dict[str, str], spec: Object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "labels": marks,
            "ownerReferences": [labels.owner(job)],
        },
        # A name holds as soon as its pod has an address: peers meet before any of them is ready.
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, **spec},
    }


def _ports(role: Role) -> list[Object]:
    """Every named port of the main container; a number that has two names is listed under the first."""
    names: dict[int, str] = {}
    for name, number in role.container.ports.items():
        names.setdefault(number, name)
    return [{"name": name, "port": number, "targetPort": number} for number, name in names.items()]
