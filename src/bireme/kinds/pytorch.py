"""How do the replicas of a PyTorchJob find each other, and when has it succeeded."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct, field

from bireme.kinds import contract
from bireme.kinds.contract import Injects, Problem, ReplicaContext, RoleType, Tally, Undecided, Verdict
from bireme.model.job import Job, Kind, Restart, Role
from bireme.model.pods import EnvVar

KIND = Kind.PYTORCH
API_VERSIONS = ("kubeflow.org/v1",)
SPECS = "pytorchReplicaSpecs"
MAIN = "pytorch"
PORT = ("pytorchjob-port", 23456)
INJECTS = Injects.EVERY
INDEPENDENT = False
OPERATOR = "pytorchjob-controller"

wanted = contract.every_member
files = contract.no_files
start_after = contract.at_once
is_placeholder = contract.never_idle


class RdzvConf(Struct, frozen=True):
    key: str
    value: str


class ElasticPolicy(Struct, frozen=True, rename="camel"):
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


class Options(Struct, frozen=True, rename="camel"):
    nproc_per_node: str | None = None
    elastic_policy: ElasticPolicy | None = None


def options(job: Job) -> Options:
    return msgspec.convert(job.options, Options)


def role_types(api_version: str) -> tuple[RoleType, ...]:
    return RoleType("Master", restart=Restart.ON_FAILURE), RoleType("Worker", restart=Restart.ON_FAILURE)


def defaults(job: Job) -> Job:
    chosen = options(job)
    elastic = chosen.elastic_policy
    if elastic is not None:
        worker = job.role("worker")
        least = elastic.min_replicas or elastic.max_replicas or (worker.replicas if worker else 1)
        most = elastic.max_replicas or elastic.min_replicas or (worker.replicas if worker else 1)
        elastic = msgspec.structs.replace(elastic, min_replicas=least, max_replicas=most)
    said = elastic is not None and elastic.nproc_per_node is not None
    nproc = chosen.nproc_per_node or (None if said else "auto")
    filled = Options(nproc_per_node=nproc, elastic_policy=elastic)
    return msgspec.structs.replace(job, options=msgspec.to_builtins(filled))


def validate(job: Job) -> Iterator[Problem]:
    master, worker = job.role("master"), job.role("worker")
    if master is not None and master.replicas != 1:
        yield Problem(f"spec.{SPECS}[Master].replicas", "Forbidden: must be 1", "write `replicas: 1`")
    if worker is not None and worker.replicas < 1:
        yield Problem(
            f"spec.{SPECS}[Worker].replicas",
            "Forbidden: must be at least 1",
            "write `replicas: 1` or leave the Worker out",
        )
    chosen = options(job)
    elastic = chosen.elastic_policy
    if elastic is None:
        return
    if worker is None:
        yield Problem(f"spec.{SPECS}[Worker]", "Required value: must be configured if elastic policy is used")
    if elastic.nproc_per_node is not None and chosen.nproc_per_node is not None:
        yield Problem("spec.elasticPolicy.nProcPerNode", "Forbidden: must not be used with spec.nprocPerNode")


def wire(place: ReplicaContext) -> tuple[EnvVar, ...]:
    values = {"PYTHONUNBUFFERED": "1"}
    if place.job.role("master") is not None:
        values |= _through_master(place)
    values |= _launcher(place)
    wired = tuple(EnvVar(name, value) for name, value in values.items())
    return wired + _torchrun(place) if place.job.torchrun_environment else wired


def outcome(job: Job, tally: Tally) -> Verdict:
    if job.torchrun_environment:
        return _decided_by_every_rank(job, tally)
    if job.role("master") is not None:
        return _decided_by_master(job, tally)
    workers, declared = tally.of("worker"), _replicas(job, "worker")
    elastic = options(job).elastic_policy is not None
    if workers.succeeded >= declared or (elastic and workers.succeeded):
        return contract.succeeded_qualified(job)
    failure = contract.first_failure(job, tally)
    if failure:
        return failure
    return contract.running_qualified(job) if workers.active else Undecided()


def rendezvous_replica(job: Job) -> str:
    if job.role("master") is None and options(job).elastic_policy is None:
        return ""  # Its replicas are told of nobody.
    return contract.at_first(job, "master", "worker")


def is_leader(job: Job, role: Role, index: int) -> bool:
    return role.name == "master" or (job.role("master") is None and index == 0)


def _decided_by_every_rank(job: Job, tally: Tally) -> Verdict:
    """As under torchrun: no rank is cut short because rank 0 was the first to finish."""
    if len(tally.done) >= job.total:
        return contract.succeeded(job)
    failure = contract.first_failure(job, tally)
    if failure:
        return failure
    return contract.running(job) if any(one.active for one in tally.counts.values()) else Undecided()


def _decided_by_master(job: Job, tally: Tally) -> Verdict:
    if tally.of("master").succeeded:
        return contract.succeeded(job)
    failure = contract.first_failure(job, tally)
    if failure:
        return failure
    return contract.running(job) if tally.of("master").active else Undecided()


def _through_master(place: ReplicaContext) -> dict[str, str]:
    master = place.job.role("master")
    assert master is not None
    host, port = place.host(master), str(place.port(master, PORT))
    rank = str(_rank(place))
    return {
        "MASTER_PORT": port,
        "PET_MASTER_PORT": port,
        "MASTER_ADDR": host,
        "PET_MASTER_ADDR": host,
        "WORLD_SIZE": str(place.job.total * _processes(place.job)),
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
    values |= {
        "PET_RDZV_ENDPOINT": _rendezvous(place, elastic),
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


def _rendezvous(place: ReplicaContext, elastic: ElasticPolicy) -> str:
    worker = place.job.role("worker")
    assert worker is not None
    host = elastic.rdzv_host or place.host(worker)
    port = elastic.rdzv_port or place.port(worker, PORT)
    return f"{host}:{port}"


def _torchrun(place: ReplicaContext) -> tuple[EnvVar, ...]:
    """What torchrun gives a rank beyond the contract, so that its scripts run unchanged."""
    local_rank, local_size = _on_this_host(place)
    limit = place.job.policy.backoff_limit
    values = {
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(local_size),
        "GROUP_RANK": str(_rank(place) // local_size),
        "GROUP_WORLD_SIZE": str(place.job.total // local_size),
        "ROLE_NAME": "default",
        "ROLE_RANK": str(_rank(place)),
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


def _on_this_host(place: ReplicaContext) -> tuple[int, int]:
    """The rank's number among the ranks that share its host, and how many those are."""
    if not place.addresses.book:
        return 0, 1
    return _rank(place), place.job.total


def _rank(place: ReplicaContext) -> int:
    has_master = place.job.role("master") is not None
    return place.index + (1 if has_master and place.role.name == "worker" else 0)


def _processes(job: Job) -> int:
    nproc = options(job).nproc_per_node or ""
    return int(nproc) if nproc.isdecimal() else 1


def _replicas(job: Job, role: str) -> int:
    found = job.role(role)
    return found.replicas if found else 0
