"""Runs XGBoostJobs: the master serves the tracker, and its end is the job's."""

from __future__ import annotations

from collections.abc import Iterator

from bireme.kinds import contract
from bireme.kinds.contract import Kind, ManifestProblem, ReplicaContext, RoleType, ScriptRole, Tally, Verdict
from bireme.model.job import Job, Role
from bireme.model.pods import EnvVar

_WORKERS = "workers"


class XGBoostJob(Kind):
    name = "XGBoostJob"
    specs = "xgbReplicaSpecs"
    container = "xgboost"
    port = ("xgboostjob-port", 9999)
    role_rules = (
        contract.must_exist("Master", "it serves the tracker, and its end is the job's"),
        contract.only_one("Master"),
    )

    def role_types(self, api_version: str) -> tuple[RoleType, ...]:
        return RoleType("Master"), RoleType("Worker")

    def script_roles(self, workers: int) -> tuple[ScriptRole, ...]:
        return contract.master_and_workers(workers)

    def validate(self, job: Job) -> Iterator[ManifestProblem]:
        master = job.role("master")
        if master is None:
            yield ManifestProblem(
                f"spec.{self.specs}[Master]",
                "Required value: must be present",
                "add a Master: it serves the tracker, and its end is the job's",
            )
        elif master.replicas != 1:
            yield ManifestProblem(
                f"spec.{self.specs}[Master].replicas", "Forbidden: must be 1", "write `replicas: 1`"
            )

    def wire(self, place: ReplicaContext) -> tuple[EnvVar, ...]:
        master, worker = place.job.role("master"), place.job.role("worker")
        assert master is not None
        values = {
            "MASTER_PORT": str(place.port(master, self.port)),
            "MASTER_ADDR": place.host(master),
            "WORLD_SIZE": str(place.job.total),
            "RANK": str(self.rank(place.job, place.role, place.index)),
            "PYTHONUNBUFFERED": "1",
        }
        if worker is not None and place.job.total > 1:
            if _WORKERS not in place.shared:
                hosts = (place.host(worker, index) for index in range(worker.replicas))
                place.shared[_WORKERS] = ",".join(hosts)
            # One number stands for every worker's port. On one machine only the first worker's can be right.
            values["WORKER_PORT"] = str(place.port(worker, self.port))
            values["WORKER_ADDRS"] = place.shared[_WORKERS]
        return tuple(EnvVar(name, value) for name, value in values.items())

    def outcome(self, job: Job, tally: Tally) -> Verdict:
        master = tally.of("master")
        return contract.decided(job, tally, complete=bool(master.succeeded), active=bool(master.active))

    def rendezvous_replica(self, job: Job) -> str:
        return contract.first_of(job, "master")

    def is_leader(self, job: Job, role: Role, index: int) -> bool:
        return role.name == "master"

    def rank(self, job: Job, role: Role, index: int) -> int | None:
        master = job.role("master")
        return index + (master.replicas if master is not None and role.name == "worker" else 0)


KIND = XGBoostJob()
