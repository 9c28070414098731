"""How do tests make jobs tersely: model values with defaults that rarely matter to a test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bireme import kinds
from bireme.kinds.contract import ReplicaContext, Tally
from bireme.model.job import (
    Job,
    Naming,
    ReplicaId,
    Restart,
    RestartScope,
    Role,
    RunPolicy,
    replica_ids,
    replica_name,
)
from bireme.model.pods import Container, EnvVar, FieldRef, PodSpec, Resources
from bireme.model.replicas import Address, Addresses
from bireme.model.status import Counts

CLUSTER = Addresses()
"""Where DNS names hold."""

NAMINGS = {"Launcher": Naming.ROLE, "Pod": Naming.INDEX}


def job(
    kind: str,
    *roles: Role,
    name: str = "mnist",
    namespace: str = "default",
    api_version: str = "",
    policy: RunPolicy | None = None,
    unit: RestartScope = RestartScope.REPLICA,
    options: Mapping[str, object] | None = None,
    torchrun_environment: bool = False,
    annotations: Mapping[str, str] | None = None,
) -> Job:
    """A complete job: its kind's defaults are applied. Without roles it has one replica of the usual role."""
    module = kinds.named(kind)
    given = Job(
        kind=kind,
        api_version=api_version or module.api_versions[0],
        name=name,
        namespace=namespace,
        uid=f"{name}-uid",
        roles=roles or (role("Pod" if kind == "Job" else "Worker"),),
        policy=policy or RunPolicy(),
        unit=unit,
        options=dict(options or {}),
        torchrun_environment=torchrun_environment,
        annotations=dict(annotations or {}),
    )
    return module.defaults(kinds.typed(given))


def options(of: Job) -> dict[str, Any]:  # Any: JSON has no better type
    """The fields that only the job's kind has, as a manifest writes them."""
    written: dict[str, Any] = msgspec.to_builtins(of.options)
    return written


def role(
    type: str,
    replicas: int = 1,
    *containers: Container,
    restart: Restart = Restart.NEVER,
    main: str = "",
    init: tuple[Container, ...] = (),
    grace: float = 30.0,
) -> Role:
    """A role whose first container is its main one, unless another is named."""
    programs = containers or (container(),)
    return Role(
        name=type.lower(),
        type=type,
        replicas=replicas,
        restart=restart,
        pod=PodSpec(containers=programs, init_containers=init, grace=grace),
        main=main or programs[0].name,
        naming=NAMINGS.get(type, Naming.ROLE_AND_INDEX),
    )


def container(
    *command: str,
    name: str = "main",
    args: tuple[str, ...] = (),
    env: Mapping[str, str] | None = None,
    ports: Mapping[str, int] | None = None,
    requests: Resources | None = None,
    limits: Resources | None = None,
    sidecar: bool = False,
) -> Container:
    return Container(
        name=name,
        image="training:1",
        command=command,
        args=args,
        env=tuple(EnvVar(key, value) for key, value in (env or {}).items()),
        ports=dict(ports or {}),
        requests=requests or Resources(),
        limits=limits or Resources(),
        sidecar=sidecar,
    )


def member(of: Job, role_name: str, index: int = 0) -> ReplicaId:
    """A replica that the job declares, or would after scaling up."""
    return ReplicaId(replica_name(of, declared(of, role_name), index), role_name, index)


def declared(of: Job, role_name: str) -> Role:
    found = of.role(role_name)
    assert found is not None, f"{of.name} has no role {role_name}"
    return found


def place(
    of: Job, role_name: str, index: int = 0, addresses: Addresses = CLUSTER, attempt: int = 0
) -> ReplicaContext:
    return ReplicaContext(
        job=of, role=declared(of, role_name), index=index, attempt=attempt, addresses=addresses
    )


def book(of: Job, first: int = 40000) -> Addresses:
    """The addresses of a job on one machine: every replica has the kind's port under a number of its own."""
    port = kinds.of(of).port[0]
    entries = {
        one.name: Address("127.0.0.1", {port: first + count} if port else {})
        for count, one in enumerate(replica_ids(of))
    }
    return Addresses(book=entries)


def tally(done: tuple[str, ...] = (), pending: tuple[str, ...] = (), **counts: Counts) -> Tally:
    """What has become of the replicas: `tally(worker=Counts(active=2))`."""
    return Tally(counts=counts, done=frozenset(done), pending=frozenset(pending))


def environment(of: ReplicaContext) -> list[str]:
    """What the kind gives a replica, as lines: `RANK=0`, `?NAME=rsh` if weak, `NAME<-field` by reference."""
    return [_line(one) for one in kinds.named(of.job.kind).wire(of)]


def _line(one: EnvVar) -> str:
    if isinstance(one.source, FieldRef):
        return f"{one.name}<-{one.source.path}"
    return f"{'?' if one.weak else ''}{one.name}={one.value}"
