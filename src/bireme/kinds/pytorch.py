"""Runs PyTorchJobs: rendezvous at the master or by torchrun; the master decides, else every worker."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct, field, structs

from bireme.kinds import contract
from bireme.kinds.contract import (
    Autoscaling,
    CelRule,
    Kind,
    ManifestProblem,
    Raw,
    ReplicaContext,
    Right,
    RoleType,
    ScriptRole,
    Tally,
    Verdict,
)
from bireme.model.job import Job, Restart, Role
from bireme.model.pods import EnvVar


class RdzvConf(Struct, frozen=True):
    key: str
    value: str


class PyTorchElasticPolicy(Struct, frozen=True, rename="camel"):
    min_replicas: int | None = None
    max_replicas: int | None = None
    rdzv_backend: str | None = None
    rdzv_port: int | None = None
    rdzv_host: str | None = None
    rdzv_id: str | None = None
    rdzv_conf: tuple[RdzvConf, ...] = ()
    standalone: bool | None = None
    nproc_per_node: int | None = field(default=None, name="nProcPerNode")
    max_restarts: int | None = None
    metrics: tuple[dict[str, object], ...] = ()


class PyTorchOptions(Struct, frozen=True, rename="camel"):
    nproc_per_node: str | None = None
    elastic_policy: PyTorchElasticPolicy | None = None


def options(job: Job) -> PyTorchOptions:
    return contract.options_of(job, PyTorchOptions)


class PyTorchJob(Kind):
    name = "PyTorchJob"
    specs = "pytorchReplicaSpecs"
    container = "pytorch"
    port = ("pytorchjob-port", 23456)
    Options = PyTorchOptions
    scalable = True
    torchrun = True
    image = "pytorch/pytorch"
    role_rules = (
        contract.only_one("Master"),
        CelRule(
            "self.all(type, type.lowerAscii() != 'worker' || !has(self[type].replicas) "
            "|| self[type].replicas >= 1)",
            "Worker.replicas must be at least 1",
            reason=contract.FORBIDDEN,
        ),
    )
    spec_rules = (
        CelRule(
            f"!has(self.elasticPolicy) || self.pytorchReplicaSpecs.exists(type, {contract.CEL_IS_WORKER})",
            "Worker must be configured if elastic policy is used",
            reason=contract.REQUIRED,
            field_path=".pytorchReplicaSpecs",
        ),
        CelRule(
            "!has(self.elasticPolicy) || !has(self.elasticPolicy.nProcPerNode) || !has(self.nprocPerNode)",
            "must not be used with spec.nprocPerNode",
            reason=contract.FORBIDDEN,
            field_path=".elasticPolicy.nProcPerNode",
        ),
    )
    rights = (Right("autoscaling", ("horizontalpodautoscalers",), ("create", "delete", "get", "patch")),)

    def role_types(self, api_version: str) -> tuple[RoleType, ...]:
        return RoleType("Master", restart=Restart.ON_FAILURE), RoleType("Worker", restart=Restart.ON_FAILURE)

    def script_roles(self, workers: int) -> tuple[ScriptRole, ...]:
        return contract.master_and_workers(workers)

    def defaults(self, job: Job) -> Job:
        chosen = options(job)
        elastic = chosen.elastic_policy
        if elastic is not None:
            worker = job.role("worker")
            least = elastic.min_replicas or elastic.max_replicas or (worker.replicas if worker else 1)
            most = elastic.max_replicas or elastic.min_replicas or (worker.replicas if worker else 1)
            elastic = structs.replace(elastic, min_replicas=least, max_replicas=most)
        said = elastic is not None and elastic.nproc_per_node is not None
        nproc = chosen.nproc_per_node or (None if said else "auto")
        return structs.replace(job, options=PyTorchOptions(nproc_per_node=nproc, elastic_policy=elastic))

    def validate(self, job: Job) -> Iterator[ManifestProblem]:
        master, worker = job.role("master"), job.role("worker")
        if master is not None and master.replicas != 1:
            yield ManifestProblem(
                f"spec.{self.specs}[Master].replicas", "Forbidden: must be 1", "write `replicas: 1`"
            )
        if worker is not None and worker.replicas < 1:
            yield ManifestProblem(
                f"spec.{self.specs}[Worker].replicas",
                "Forbidden: must be at least 1",
                "write `replicas: 1` or leave the Worker out",
            )
        chosen = options(job)
        elastic = chosen.elastic_policy
        if elastic is None:
            return
        if worker is None:
            yield ManifestProblem(
                f"spec.{self.specs}[Worker]", "Required value: must be configured if elastic policy is used"
            )
        if elastic.nproc_per_node is not None and chosen.nproc_per_node is not None:
            yield ManifestProblem(
                "spec.elasticPolicy.nProcPerNode", "Forbidden: must not be used with spec.nprocPerNode"
            )

    def wire(self, place: ReplicaContext) -> tuple[EnvVar, ...]:
        values = {"PYTHONUNBUFFERED": "1"}
        if place.job.role("master") is not None:
            values |= _through_master(place)
        values |= _launcher(place)
        wired = tuple(EnvVar(name, value) for name, value in values.items())
        return wired + _torchrun(place) if place.job.torchrun_environment else wired

    def rank(self, job: Job, role: Role, index: int) -> int | None:
        # Workers without a master are told no rank: torchrun or the rendezvous numbers them.
        return _number(job, role, index) if job.role("master") is not None else None

    def outcome(self, job: Job, tally: Tally) -> Verdict:
        if job.torchrun_environment:
            # As under torchrun: no rank is cut short because rank 0 was the first to finish.
            active = any(counts.active for counts in tally.counts.values())
            return contract.decided(job, tally, complete=len(tally.done) >= job.total, active=active)
        if job.role("master") is not None:
            master = tally.of("master")
            return contract.decided(job, tally, complete=bool(master.succeeded), active=bool(master.active))
        workers, declared = tally.of("worker"), job.role("worker")
        elastic = options(job).elastic_policy is not None
        complete = workers.succeeded >= (declared.replicas if declared else 0)
        return contract.decided(
            job,
            tally,
            complete=complete or (elastic and bool(workers.succeeded)),
            active=bool(workers.active),
            qualified=True,
        )

    def rendezvous_replica(self, job: Job) -> str:
        if job.role("master") is None and options(job).elastic_policy is None:
            return ""  # Its replicas are told of no other.
        return contract.first_of(job, "master", "worker")

    def is_leader(self, job: Job, role: Role, index: int) -> bool:
        return role.name == "master" or (job.role("master") is None and index == 0)

    def counts_ranks(self, job: Job) -> bool:
        return job.torchrun_environment

    def with_ranks(self, job: Job, count: int) -> Job:
        first = job.role("master") or job.roles[0]
        if first.name != "master":
            return structs.replace(job, roles=(structs.replace(first, replicas=count),))
        others = job.role("worker") or structs.replace(first, name="worker", type="Worker")
        more = (structs.replace(others, replicas=count - 1),) if count > 1 else ()
        return structs.replace(job, roles=(first, *more))

    def scaled(self, spec: Raw, replicas: Mapping[str, int], gone: Collection[str]) -> Raw:
        change = super().scaled(spec, replicas, gone)
        roles: Raw = spec.get(self.specs) or {}
        written = {key.lower(): key for key in roles}
        first = written.get("master")
        if first is not None and "worker" not in written and "worker" in replicas:
            # The workers of a script that had only its first rank are made like that one.
            change[self.specs] |= {"Worker": {**roles[first], "replicas": replicas["worker"]}}
        return change

    def autoscaling(self, job: Job) -> Autoscaling | None:
        elastic = options(job).elastic_policy
        if elastic is None or not elastic.metrics:
            return None
        return Autoscaling(elastic.min_replicas or 1, elastic.max_replicas or 1, elastic.metrics)


def _through_master(place: ReplicaContext) -> dict[str, str]:
    master = place.job.role("master")
    assert master is not None
    host, port = place.host(master), str(place.port(master, PyTorchJob.port))
    rank = str(_number(place.job, place.role, place.index))
    nproc = options(place.job).nproc_per_node or ""
    processes = int(nproc) if nproc.isdecimal() else 1
    return {
        "MASTER_PORT": port,
        "PET_MASTER_PORT": port,
        "MASTER_ADDR": host,
        "PET_MASTER_ADDR": host,
        "WORLD_SIZE": str(place.job.total * processes),
        "RANK": rank,
        "PET_NODE_RANK": rank,
    }


def _launcher(place: ReplicaContext) -> dict[str, str]:
    """The variables that torchrun itself reads, should the command be torchrun."""
    chosen = options(place.job)
    values = {"PET_NPROC_PER_NODE": chosen.nproc_per_node} if chosen.nproc_per_node else {}
    elastic = chosen.elastic_policy
    if elastic is None:
        return values | {"PET_NNODES": str(place.job.total)}
    worker = place.job.role("worker")
    assert worker is not None
    host = elastic.rdzv_host or place.host(worker)
    port = elastic.rdzv_port or place.port(worker, PyTorchJob.port)
    values |= {
        "PET_RDZV_ENDPOINT": f"{host}:{port}",
        "PET_RDZV_BACKEND": elastic.rdzv_backend or "c10d",
        "PET_NNODES": f"{elastic.min_replicas}:{elastic.max_replicas}",
    }
    if elastic.max_restarts is not None:
        values["PET_MAX_RESTARTS"] = str(elastic.max_restarts)
    if elastic.nproc_per_node is not None:
        values["PET_NPROC_PER_NODE"] = str(elastic.nproc_per_node)
    if elastic.rdzv_id is not None:
        values["PET_RDZV_ID"] = elastic.rdzv_id
    if elastic.rdzv_conf:
        values["PET_RDZV_CONF"] = ",".join(f"{conf.key}={conf.value}" for conf in elastic.rdzv_conf)
    if elastic.standalone:
        values["PET_STANDALONE"] = ""
    return values


def _torchrun(place: ReplicaContext) -> tuple[EnvVar, ...]:
    """The variables that torchrun sets beyond the contract, so that its scripts run unchanged."""
    rank = _number(place.job, place.role, place.index)
    # Ranks that have an address book share one host; in a cluster each has a pod of its own.
    local_rank, local_size = (rank, place.job.total) if place.addresses.book else (0, 1)
    limit = place.job.policy.backoff_limit
    values = {
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(local_size),
        "GROUP_RANK": str(rank // local_size),
        "GROUP_WORLD_SIZE": str(place.job.total // local_size),
        "ROLE_NAME": "default",
        "ROLE_RANK": str(rank),
        "ROLE_WORLD_SIZE": str(place.job.total),
        "TORCHELASTIC_RESTART_COUNT": str(place.attempt),
        "TORCHELASTIC_MAX_RESTARTS": str(limit if limit is not None else 0),
        "TORCHELASTIC_RUN_ID": place.job.name,
        # Rank 0 serves the store itself: no agent of ours does.
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    }
    wired = tuple(EnvVar(name, value) for name, value in values.items())
    return (*wired, EnvVar("OMP_NUM_THREADS", "1", weak=True)) if local_size > 1 else wired


def _number(job: Job, role: Role, index: int) -> int:
    """The replica's number among all of the job's: the master comes first."""
    return index + (1 if job.role("master") is not None and role.name == "worker" else 0)


KIND = PyTorchJob()
