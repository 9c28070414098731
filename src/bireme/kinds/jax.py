"""Runs JAXJobs: a coordinator at the first worker; all workers decide the job."""

from __future__ import annotations

from bireme.kinds import contract
from bireme.kinds.contract import Kind, ReplicaContext, RoleType, Tally, Verdict
from bireme.model.job import Job, Role
from bireme.model.pods import EnvVar


class JAXJob(Kind):
    name = "JAXJob"
    specs = "jaxReplicaSpecs"
    container = "jax"
    port = ("jaxjob-port", 6666)
    scalable = True

    def role_types(self, api_version: str) -> tuple[RoleType, ...]:
        return (RoleType("Worker"),)

    def wire(self, place: ReplicaContext) -> tuple[EnvVar, ...]:
        values = {
            "PYTHONUNBUFFERED": "1",
            "COORDINATOR_PORT": str(place.port(place.role, self.port)),
            "COORDINATOR_ADDRESS": place.host(place.role),
            "NUM_PROCESSES": str(place.job.total),
            "PROCESS_ID": str(place.index),
        }
        return tuple(EnvVar(name, value) for name, value in values.items())

    def outcome(self, job: Job, tally: Tally) -> Verdict:
        workers = tally.of("worker")
        complete = workers.succeeded >= job.total
        return contract.decided(job, tally, complete=complete, active=bool(workers.active), qualified=True)

    def rendezvous_replica(self, job: Job) -> str:
        return contract.first_of(job, "worker")

    def is_leader(self, job: Job, role: Role, index: int) -> bool:
        return index == 0

    def rank(self, job: Job, role: Role, index: int) -> int | None:
        return index


KIND = JAXJob()
