"""How do the replicas of an XGBoostJob find each other, and when has it succeeded."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from bireme.kinds import contract
from bireme.kinds.contract import Injects, Problem, ReplicaContext, RoleType, Tally, Undecided, Verdict
from bireme.model.job import Job, Kind, Role
from bireme.model.pods import EnvVar

KIND = Kind.XGBOOST
API_VERSIONS = ("kubeflow.org/v1",)
SPECS = "xgbReplicaSpecs"
MAIN = "xgboost"
PORT = ("xgboostjob-port", 9999)
INJECTS = Injects.EVERY
INDEPENDENT = False
OPERATOR = "xgboostjob-controller"
_WORKERS = "workers"

defaults = contract.as_is
wanted = contract.every_member
files = contract.no_files
start_after = contract.at_once
is_placeholder = contract.never_idle


class Options(Struct, frozen=True):
    """This kind has no fields of its own."""


def role_types(api_version: str) -> tuple[RoleType, ...]:
    return RoleType("Master"), RoleType("Worker")


def validate(job: Job) -> Iterator[Problem]:
    master = job.role("master")
    if master is None:
        yield Problem(
            f"spec.{SPECS}[Master]",
            "Required value: must be present",
            "add a Master: it serves the tracker, and its end is the job's",
        )
    elif master.replicas != 1:
        yield Problem(f"spec.{SPECS}[Master].replicas", "Forbidden: must be 1", "write `replicas: 1`")


def wire(place: ReplicaContext) -> tuple[EnvVar, ...]:
    master, worker = place.job.role("master"), place.job.role("worker")
    assert master is not None
    masters = master.replicas if place.role.name == "worker" else 0
    values = {
        "MASTER_PORT": str(place.port(master, PORT)),
        "MASTER_ADDR": place.host(master),
        "WORLD_SIZE": str(place.job.total),
        "RANK": str(place.index + masters),
        "PYTHONUNBUFFERED": "1",
    }
    if worker is not None and place.job.total > 1:
        # One number stands for every worker's port. On one machine only the first worker's can be right.
        values["WORKER_PORT"] = str(place.port(worker, PORT))
        values["WORKER_ADDRS"] = _workers(place, worker)
    return tuple(EnvVar(name, value) for name, value in values.items())


def outcome(job: Job, tally: Tally) -> Verdict:
    if tally.of("master").succeeded:
        return contract.succeeded(job)
    failure = contract.first_failure(job, tally)
    if failure:
        return failure
    return contract.running(job) if tally.of("master").active else Undecided()


def rendezvous_replica(job: Job) -> str:
    return contract.at_first(job, "master")


def is_leader(job: Job, role: Role, index: int) -> bool:
    return role.name == "master"


def _workers(place: ReplicaContext, worker: Role) -> str:
    if _WORKERS not in place.shared:
        hosts = (place.host(worker, index) for index in range(worker.replicas))
        place.shared[_WORKERS] = ",".join(hosts)
    return place.shared[_WORKERS]
