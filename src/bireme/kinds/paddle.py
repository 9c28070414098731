"""How do the replicas of a PaddleJob find each other, and when has it succeeded."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from bireme.kinds import contract
from bireme.kinds.contract import Injects, ReplicaContext, RoleType, Tally, Undecided, Verdict
from bireme.model.job import Job, Kind, Restart, Role
from bireme.model.pods import EnvVar, FieldRef

KIND = Kind.PADDLE
API_VERSIONS = ("kubeflow.org/v1",)
SPECS = "paddleReplicaSpecs"
MAIN = "paddle"
PORT = ("master", 36543)
INJECTS = Injects.EVERY
INDEPENDENT = False
OPERATOR = "paddlejob-controller"

validate = contract.no_problems
wanted = contract.every_member
files = contract.no_files
start_after = contract.at_once
is_placeholder = contract.never_idle


class ElasticPolicy(Struct, frozen=True, rename="camel", omit_defaults=True):
    min_replicas: int | None = None
    max_replicas: int | None = None
    max_restarts: int | None = None
    metrics: tuple[dict[str, object], ...] = ()


class Options(Struct, frozen=True, rename="camel", omit_defaults=True):
    elastic_policy: ElasticPolicy | None = None


def options(job: Job) -> Options:
    return msgspec.convert(job.options, Options)


def role_types(api_version: str) -> tuple[RoleType, ...]:
    return RoleType("Master", restart=Restart.ON_FAILURE), RoleType("Worker", restart=Restart.ON_FAILURE)


def defaults(job: Job) -> Job:
    elastic = options(job).elastic_policy
    if elastic is None:
        return job
    worker = job.role("worker")
    workers = worker.replicas if worker else 1
    bounded = msgspec.structs.replace(
        elastic,
        min_replicas=elastic.min_replicas or elastic.max_replicas or workers,
        max_replicas=elastic.max_replicas or elastic.min_replicas or workers,
    )
    return msgspec.structs.replace(job, options=msgspec.to_builtins(Options(elastic_policy=bounded)))


def wire(place: ReplicaContext) -> tuple[EnvVar, ...]:
    return (
        EnvVar("PYTHONUNBUFFERED", "1"),
        EnvVar("PADDLE_JOB_ID", place.job.name),
        EnvVar("PADDLE_NNODES", str(place.job.total)),
        *_rendezvous(place),
        *_part(place),
    )


def outcome(job: Job, tally: Tally) -> Verdict:
    meeting = _meeting(job)
    counts = tally.of(meeting.name)
    by_master = meeting.name == "master"
    if counts.succeeded >= meeting.replicas:
        return contract.succeeded(job) if by_master else contract.succeeded_qualified(job)
    failure = contract.first_failure(job, tally)
    if failure:
        return failure
    if not counts.active:
        return Undecided()
    return contract.running(job) if by_master else contract.running_qualified(job)


def rendezvous_replica(job: Job) -> str:
    return contract.at_first(job, "master", "worker")


def is_leader(job: Job, role: Role, index: int) -> bool:
    return role.name == "master"


def _meeting(job: Job) -> Role:
    """The role whose first replica serves the rendezvous, and whose end is the job's."""
    return job.role("master") or job.roles[0]


def _rendezvous(place: ReplicaContext) -> tuple[EnvVar, ...]:
    meeting = _meeting(place.job)
    port = place.port(meeting, PORT)
    serves = place.role == meeting and place.index == 0
    if serves and not place.addresses.book:
        # In a cluster the server's own name may not resolve before it is ready; its address always holds.
        return (
            EnvVar("POD_IP_DUMMY", source=FieldRef("status.podIP")),
            EnvVar("PADDLE_MASTER", f"$(POD_IP_DUMMY):{port}"),
        )
    return (EnvVar("PADDLE_MASTER", f"{place.host(meeting)}:{port}"),)


def _part(place: ReplicaContext) -> tuple[EnvVar, ...]:
    """Which part a replica plays where there are parameter servers."""
    if place.job.role("master") is None:
        return ()
    part = "PADDLE_SERVER_NUM" if place.role.name == "master" else "PADDLE_TRAINER_NUM"
    return (EnvVar(part, "1"),)
