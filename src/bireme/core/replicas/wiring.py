"""Wires a replica: its pod with the environment of the kind, ready to start."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from bireme import kinds
from bireme.kinds.contract import Injects, ReplicaContext
from bireme.model.decisions import Demand, Start
from bireme.model.job import Job, ReplicaId, Restart, RestartScope, Role, replica_ids
from bireme.model.pods import Container, EnvVar
from bireme.model.replicas import Addresses


def start_all(job: Job, chosen: Sequence[ReplicaId], attempt: int, addresses: Addresses) -> tuple[Start, ...]:
    """Wire replicas of an attempt; what all of them are told is put together once."""
    shared: dict[str, str] = {}
    return tuple(start(job, replica, attempt, addresses, shared) for replica in chosen)


def start(
    job: Job, replica: ReplicaId, attempt: int, addresses: Addresses, shared: dict[str, str] | None = None
) -> Start:
    """Wire one replica of an attempt."""
    kind, role = kinds.of(job), role_of(job, replica)
    place = ReplicaContext(job, role, replica.index, attempt, addresses, {} if shared is None else shared)
    env = kind.wire(place)
    everywhere = kind.injects is Injects.EVERY
    # Only kinds whose replicas listen on a named port are found by address; to the others
    # (MPI) a replica's name is an identity that their own agent understands.
    translate = _Translation(place) if addresses.book and kind.port[0] else None
    containers = tuple(
        _with_env(container, env if everywhere or container.name == role.main else (), translate)
        for container in role.pod.containers
    )
    inits = tuple(_with_env(container, (), translate) for container in role.pod.init_containers)
    restart = Restart.NEVER if job.unit is RestartScope.GANG else role.restart
    return Start(
        replica=replica.name,
        role=role.name,
        index=replica.index,
        attempt=attempt,
        pod=replace(role.pod, containers=containers, init_containers=inits),
        restarts_in_place=restart.in_place,
        restarts_always=restart is Restart.ALWAYS,
        main=role.main,
    )


def demand(job: Job, replica: ReplicaId, done: frozenset[str]) -> Demand | None:
    """The demand of a replica before it may start; one that is done needs at most its address."""
    role = role_of(job, replica)
    ports = tuple(dict.fromkeys(name for container in role.pod.containers for name in container.ports))
    if replica.name not in done:
        return Demand(replica.name, role.pod.claims, ports)
    idle = replace(role.pod.claims, cpu=0, memory=0, devices={})
    return Demand(replica.name, idle, ports) if ports else None


def role_of(job: Job, replica: ReplicaId) -> Role:
    role = job.role(replica.role)
    assert role is not None, f"{replica.name} has a role that its job does not declare"
    return role


def _with_env(container: Container, env: tuple[EnvVar, ...], translate: _Translation | None) -> Container:
    merged = (*container.env, *env)
    if translate is None:
        return replace(container, env=merged)
    return replace(
        container,
        command=tuple(translate(part) for part in container.command),
        args=tuple(translate(part) for part in container.args),
        env=tuple(
            replace(variable, value=translate(variable.value)) if variable.value else variable
            for variable in merged
        ),
    )


class _Translation:
    """Replaces the names that only a cluster resolves by the addresses that hold here."""

    def __init__(self, place: ReplicaContext) -> None:
        self._hosts: dict[str, str] = {}
        self._ports: dict[tuple[str, int], int] = {}
        for replica in replica_ids(place.job):
            self._hosts[replica.name] = place.addresses.host(replica.name)
            for container in role_of(place.job, replica).pod.containers:
                for name, number in container.ports.items():
                    port = place.addresses.port(replica.name, name, number)
                    self._ports[replica.name, number] = port
        names = "|".join(re.escape(name) for name in self._hosts)
        domain = rf"(?:\.{re.escape(place.job.namespace)}(?:\.svc(?:\.cluster\.local)?)?)?"
        # A name after a single slash is part of a path.
        begin, end = r"(?:(?<=//)|(?<![\w./-]))", r"(?![\w-])(?!\.\w)"
        self._pattern = re.compile(rf"{begin}({names}){domain}(?::(\d+))?{end}")

    def __call__(self, text: str) -> str:
        return self._pattern.sub(self._address, text)

    def _address(self, found: re.Match[str]) -> str:
        name, port = found.group(1), found.group(2)
        before, after = found.string[: found.start()], found.string[found.end() :]
        if port is None and after.startswith("/") and not before.endswith("//"):
            return found.group()  # It is the first folder of a relative path.
        host = self._hosts[name]
        return f"{host}:{self._ports.get((name, int(port)), int(port))}" if port else host
