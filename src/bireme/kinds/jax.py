"""How do the replicas of a JAXJob find each other, and when has it succeeded."""

from __future__ import annotations

from msgspec import Struct

from bireme.kinds import contract
from bireme.kinds.contract import Injects, ReplicaContext, RoleType, Tally, Undecided, Verdict
from bireme.model.job import Job, Kind, Role
from bireme.model.pods import EnvVar

KIND = Kind.JAX
API_VERSIONS = ("kubeflow.org/v1",)
SPECS = "jaxReplicaSpecs"
MAIN = "jax"
PORT = ("jaxjob-port", 6666)
INJECTS = Injects.EVERY
INDEPENDENT = False
OPERATOR = "jaxjob-controller"

defaults = contract.as_is
validate = contract.no_problems
wanted = contract.every_member
files = contract.no_files
start_after = contract.at_once
is_placeholder = contract.never_idle


class Options(Struct, frozen=True):
    """This kind has no fields of its own."""


def role_types(api_version: str) -> tuple[RoleType, ...]:
    return (RoleType("Worker"),)


def wire(place: ReplicaContext) -> tuple[EnvVar, ...]:
    values = {
        "PYTHONUNBUFFERED": "1",
        "COORDINATOR_PORT": str(place.port(place.role, PORT)),
        "COORDINATOR_ADDRESS": place.host(place.role),
        "NUM_PROCESSES": str(place.job.total),
        "PROCESS_ID": str(place.index),
    }
    return tuple(EnvVar(name, value) for name, value in values.items())


def outcome(job: Job, tally: Tally) -> Verdict:
    workers = tally.of("worker")
    if workers.succeeded >= job.total:
        return contract.succeeded_qualified(job)
    failure = contract.first_failure(job, tally)
    if failure:
        return failure
    return contract.running_qualified(job) if workers.active else Undecided()


def rendezvous_replica(job: Job) -> str:
    return contract.at_first(job, "worker")


def is_leader(job: Job, role: Role, index: int) -> bool:
    return index == 0
