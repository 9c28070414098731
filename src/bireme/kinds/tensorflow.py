"""Runs TFJobs: TF_CONFIG names all replicas to each one; the chief decides the job, else the workers."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

import msgspec
from msgspec import Struct

from bireme.kinds import contract
from bireme.kinds.contract import (
    CelRule,
    Failed,
    Injects,
    Kind,
    ManifestProblem,
    ReplicaContext,
    RoleType,
    Tally,
    Undecided,
    Verdict,
)
from bireme.model.job import Job, Role, replica_name
from bireme.model.pods import EnvVar

ALL_WORKERS = "AllWorkers"
_SUCCESS_POLICIES = ("", "Default", ALL_WORKERS)
_CLUSTER = "cluster"


class TFOptions(Struct, frozen=True, rename="camel"):
    success_policy: str = ""
    enable_dynamic_worker: bool = False


def options(job: Job) -> TFOptions:
    return contract.options_of(job, TFOptions)


class TFJob(Kind):
    name = "TFJob"
    specs = "tfReplicaSpecs"
    container = "tensorflow"
    port = ("tfjob-port", 2222)
    injects = Injects.MAIN
    Options = TFOptions
    helpers = frozenset(("ps", "evaluator"))
    image = "tensorflow/tensorflow"
    choices = MappingProxyType({"successPolicy": _SUCCESS_POLICIES})
    role_rules = (
        CelRule(
            "self.filter(type, type.lowerAscii() in ['chief', 'master']).size() <= 1",
            "must not have more than 1 Chief or Master role",
            reason=contract.FORBIDDEN,
        ),
        contract.only_one("Chief", "Master"),
    )

    def role_types(self, api_version: str) -> tuple[RoleType, ...]:
        # In the order in which a job's failures are looked for.
        return tuple(RoleType(key) for key in ("Chief", "Evaluator", "Master", "PS", "Worker"))

    def validate(self, job: Job) -> Iterator[ManifestProblem]:
        chiefs = [role for role in job.roles if _is_chief(role)]
        if len(chiefs) > 1:
            yield ManifestProblem(
                f"spec.{self.specs}",
                "Forbidden: must not have more than 1 Chief or Master role",
                "keep one of Chief and Master",
            )
        for role in chiefs:
            if role.replicas != 1:
                yield ManifestProblem(
                    f"spec.{self.specs}[{role.type}].replicas",
                    "Forbidden: must be 1",
                    f"write `replicas: 1`; those that only train are workers, not a {role.type}",
                )
        policy = options(job).success_policy
        if policy not in _SUCCESS_POLICIES:
            yield contract.unsupported("spec.successPolicy", policy, _SUCCESS_POLICIES)

    def wire(self, place: ReplicaContext) -> tuple[EnvVar, ...]:
        if place.job.total == 1:
            return ()
        if options(place.job).enable_dynamic_worker:
            return (EnvVar("TF_CONFIG", _sparse_config(place)),)
        # Every replica is told of all others, so the text is made once for all of them.
        if _CLUSTER not in place.shared:
            roles = sorted(place.job.roles, key=lambda role: role.name)
            place.shared[_CLUSTER] = _json({role.name: _addresses(place, role) for role in roles})
        cluster, task = place.shared[_CLUSTER], _json(_task(place))
        return (EnvVar("TF_CONFIG", f'{{"cluster":{cluster},"task":{task},"environment":"cloud"}}'),)

    def outcome(self, job: Job, tally: Tally) -> Verdict:
        deciding = _deciding(job)
        complete = all(tally.of(role.name).succeeded >= role.replicas for role in deciding)
        first = deciding[0]
        if first.name == "worker" and options(job).success_policy != ALL_WORKERS:
            complete = complete or replica_name(job, first, 0) in tally.done
        if complete:
            return contract.succeeded(job, qualified=True)
        for role in sorted(job.roles, key=lambda role: role.type):
            failed = tally.of(role.name).failed
            if failed and not _survives(job, role, tally):
                return Failed(
                    f"{job.kind} {job.namespace}/{job.name} has failed because "
                    f"{failed} {role.type} replica(s) failed."
                )
        if any(tally.of(role.name).active for role in deciding):
            return contract.running(job, qualified=True)
        return Undecided()

    def is_leader(self, job: Job, role: Role, index: int) -> bool:
        if any(_is_chief(other) for other in job.roles):
            return _is_chief(role)
        return role.name == "worker" and index == 0


def _is_chief(role: Role) -> bool:
    return role.name in ("chief", "master")


def _deciding(job: Job) -> tuple[Role, ...]:
    """The roles whose end is the job's: the chief, else the workers, else whatever there is."""
    chiefs = tuple(role for role in job.roles if _is_chief(role))
    workers = tuple(role for role in job.roles if role.name == "worker")
    return chiefs or workers or job.roles


def _survives(job: Job, role: Role, tally: Tally) -> bool:
    """Whether the job survives that replicas of the role failed: dynamic workers may come and go."""
    if role.name != "worker" or not options(job).enable_dynamic_worker:
        return False
    counts = tally.of(role.name)
    # Where workers decide, one must be left that can still bring the job to an end.
    return role not in _deciding(job) or counts.succeeded + counts.failed < role.replicas


def _sparse_config(place: ReplicaContext) -> str:
    """The configuration where workers may come and go: a replica is told no more than it must know."""
    servers = place.job.role("ps")
    worker: dict[str, str] = {}
    ps: list[str] = []
    if place.role.name == "worker":
        worker = {str(place.index): _address(place, place.role, place.index)}
        ps = _addresses(place, servers) if servers else []
    elif place.role.name == "ps":
        ps = [_address(place, place.role, place.index)]
    return _json({"cluster": {"worker": worker, "ps": ps}, "task": _task(place)})


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _task(place: ReplicaContext) -> dict[str, object]:
    return {"type": place.role.name, "index": place.index}


def _addresses(place: ReplicaContext, role: Role) -> list[str]:
    return [_address(place, role, index) for index in range(role.replicas)]


def _address(place: ReplicaContext, role: Role, index: int) -> str:
    name = replica_name(place.job, role, index)
    host = place.addresses.host(name, dns=place.addresses.qualified(name, place.job.namespace))
    return f"{host}:{place.port(role, TFJob.port, index)}"


KIND = TFJob()
