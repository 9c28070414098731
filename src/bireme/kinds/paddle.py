"""Runs PaddleJobs: rendezvous at the master, or at the first worker of a job that has none."""

from __future__ import annotations

from msgspec import Struct, structs

from bireme.kinds import contract
from bireme.kinds.contract import Kind, ReplicaContext, RoleType, Tally, Verdict
from bireme.model.job import Job, Restart, Role
from bireme.model.pods import EnvVar, FieldRef


class PaddleElasticPolicy(Struct, frozen=True, rename="camel", omit_defaults=True):
    min_replicas: int | None = None
    max_replicas: int | None = None
    max_restarts: int | None = None
    metrics: tuple[dict[str, object], ...] = ()


class PaddleOptions(Struct, frozen=True, rename="camel", omit_defaults=True):
    elastic_policy: PaddleElasticPolicy | None = None


class PaddleJob(Kind):
    name = "PaddleJob"
    specs = "paddleReplicaSpecs"
    container = "paddle"
    port = ("master", 36543)
    Options = PaddleOptions
    scalable = True
    image = "paddlepaddle/paddle"

    def role_types(self, api_version: str) -> tuple[RoleType, ...]:
        return RoleType("Master", restart=Restart.ON_FAILURE), RoleType("Worker", restart=Restart.ON_FAILURE)

    def defaults(self, job: Job) -> Job:
        elastic = contract.options_of(job, PaddleOptions).elastic_policy
        if elastic is None:
            return job
        worker = job.role("worker")
        workers = worker.replicas if worker else 1
        bounded = structs.replace(
            elastic,
            min_replicas=elastic.min_replicas or elastic.max_replicas or workers,
            max_replicas=elastic.max_replicas or elastic.min_replicas or workers,
        )
        return structs.replace(job, options=PaddleOptions(elastic_policy=bounded))

    def wire(self, place: ReplicaContext) -> tuple[EnvVar, ...]:
        wired = [
            EnvVar("PYTHONUNBUFFERED", "1"),
            EnvVar("PADDLE_JOB_ID", place.job.name),
            EnvVar("PADDLE_NNODES", str(place.job.total)),
        ]
        deciding = _deciding(place.job)
        port = place.port(deciding, self.port)
        serves = place.role == deciding and place.index == 0
        if serves and not place.addresses.book:
            # In a cluster the server's own name may not resolve before it is ready; its address always holds.
            wired.append(EnvVar("POD_IP_DUMMY", source=FieldRef("status.podIP")))
            wired.append(EnvVar("PADDLE_MASTER", f"$(POD_IP_DUMMY):{port}"))
        else:
            wired.append(EnvVar("PADDLE_MASTER", f"{place.host(deciding)}:{port}"))
        # With a master, the replicas are parameter servers and trainers.
        if place.job.role("master") is not None:
            part = "PADDLE_SERVER_NUM" if place.role.name == "master" else "PADDLE_TRAINER_NUM"
            wired.append(EnvVar(part, "1"))
        return tuple(wired)

    def outcome(self, job: Job, tally: Tally) -> Verdict:
        deciding = _deciding(job)
        counts = tally.of(deciding.name)
        return contract.decided(
            job,
            tally,
            complete=counts.succeeded >= deciding.replicas,
            active=bool(counts.active),
            qualified=deciding.name != "master",
        )

    def rendezvous_replica(self, job: Job) -> str:
        return contract.first_of(job, "master", "worker")

    def is_leader(self, job: Job, role: Role, index: int) -> bool:
        return role.name == "master"


def _deciding(job: Job) -> Role:
    """The role whose first replica serves the rendezvous, and whose end is the job's."""
    return job.role("master") or job.roles[0]


KIND = PaddleJob()
