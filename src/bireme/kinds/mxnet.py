"""Runs MXJobs: workers train, servers hold the parameters, and the scheduler, which all meet at, decides."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec
from msgspec import Struct

from bireme.kinds import contract
from bireme.kinds.contract import (
    CelRule,
    Failed,
    Kind,
    ManifestProblem,
    Raw,
    ReplicaContext,
    RoleType,
    ScriptRole,
    Tally,
    Undecided,
    Verdict,
)
from bireme.model.job import Job, Role
from bireme.model.pods import EnvVar

_CLUSTER = "cluster"
_LABEL = "tuner-server-key"
"""The annotation of a role's template that `MX_CONFIG` passes on."""
_MANY_SCHEDULERS = "more than 1 scheduler found"


class JobMode(StrEnum):
    TRAIN = "MXTrain"
    TUNE = "MXTune"


class MXOptions(Struct, frozen=True, rename="camel", omit_defaults=True):
    job_mode: JobMode | None = None


class MXJob(Kind):
    name = "MXJob"
    specs = "mxReplicaSpecs"
    container = "mxnet"
    port = ("mxjob-port", 9091)
    Options = MXOptions
    helpers = frozenset(("scheduler", "server", "tunertracker", "tunerserver"))
    image = "mxnet/python"
    role_rules = (
        CelRule(
            "self.all(type, type.lowerAscii() != 'scheduler' || !has(self[type].replicas) "
            "|| self[type].replicas <= 1)",
            _MANY_SCHEDULERS,
            reason=contract.FORBIDDEN,
        ),
    )
    spec_rules = (CelRule("has(self.jobMode)", "jobMode is MXTrain or MXTune", reason=contract.REQUIRED),)

    def role_types(self, api_version: str) -> tuple[RoleType, ...]:
        keys = ("Scheduler", "Server", "Worker", "TunerTracker", "TunerServer", "Tuner")
        return tuple(RoleType(key) for key in keys)

    def script_roles(self, workers: int) -> tuple[ScriptRole, ...]:
        """All run the script: within `import mxnet` the first two learn that they do not train, and serve."""
        helpers = (ScriptRole("Scheduler", 1, computes=False), ScriptRole("Server", 1, computes=False))
        return (*helpers, ScriptRole("Worker", workers))

    def script_options(self, workers: int) -> Raw:
        return {"jobMode": str(JobMode.TRAIN)}

    def validate(self, job: Job) -> Iterator[ManifestProblem]:
        scheduler = job.role("scheduler")
        if scheduler is not None and scheduler.replicas > 1:
            field = f"spec.{self.specs}[Scheduler].replicas"
            yield ManifestProblem(field, f"Forbidden: {_MANY_SCHEDULERS}", "write `replicas: 1`")
        if contract.options_of(job, MXOptions).job_mode is None:
            yield ManifestProblem(
                "spec.jobMode", "Required value: MXTrain or MXTune", "write `jobMode: MXTrain`"
            )

    def wire(self, place: ReplicaContext) -> tuple[EnvVar, ...]:
        job = place.job
        counts = {role.name: role.replicas for role in job.roles}
        values = {"MX_CONFIG": self._config(place)}
        if scheduler := job.role("scheduler"):
            values["DMLC_PS_ROOT_PORT"] = str(place.port(scheduler, self.port))
            values["DMLC_PS_ROOT_URI"] = place.host(scheduler)
        values |= {
            "DMLC_NUM_SERVER": str(counts.get("server", 0)),
            "DMLC_NUM_WORKER": str(counts.get("worker", 0)),
            "DMLC_ROLE": place.role.name,
            "DMLC_USE_KUBERNETES": "1",
        }
        if place.role.name == "worker":
            values["DMLC_WORKER_ID"] = str(place.index)
        return tuple(EnvVar(name, value) for name, value in values.items())

    def outcome(self, job: Job, tally: Tally) -> Verdict:
        # The scheduler decides, else what tunes or trains without one.
        found = (job.role(name) for name in ("scheduler", "tuner", "worker"))
        deciding = next((role for role in found if role is not None), job.roles[0])
        counts = tally.of(deciding.name)
        if deciding.replicas and counts.succeeded >= deciding.replicas:
            return contract.succeeded(job)
        for role in job.roles:
            if failed := tally.of(role.name).failed:
                # The contract spells the kind in lower case here, and here only.
                text = (
                    f"{job.kind.lower()} {job.name} is failed because {failed} {role.type} replica(s) failed."
                )
                return Failed(text)
        return contract.running(job) if counts.active else Undecided()

    def rendezvous_replica(self, job: Job) -> str:
        return contract.first_of(job, "scheduler")

    def is_leader(self, job: Job, role: Role, index: int) -> bool:
        return role.name == "server"

    def _config(self, place: ReplicaContext) -> str:
        roles = place.job.roles
        if _CLUSTER not in place.shared:
            addresses = {
                role.name: [
                    {"url": place.host(role, index), "port": place.port(role, self.port, index)}
                    for index in range(role.replicas)
                ]
                for role in roles
            }
            place.shared[_CLUSTER] = msgspec.json.encode(addresses).decode()
        labels = msgspec.json.encode({role.name: role.pod.annotations.get(_LABEL, "") for role in roles})
        task = msgspec.json.encode({"type": place.role.name, "index": place.index})
        return f'{{"cluster":{place.shared[_CLUSTER]},"labels":{labels.decode()},"task":{task.decode()}}}'


KIND = MXJob()
