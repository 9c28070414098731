"""What exactly does a replica run: its pod with the kind's environment, ready to start."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from bireme import kinds
from bireme.kinds.contract import Injects, ReplicaContext
from bireme.model.decisions import Demand, Start
from bireme.model.job import Job, ReplicaId, Restart, RestartScope, Role, replica_ids
from bireme.model.pods import Container, EnvVar, PodSpec
from bireme.model.replicas import Addresses


def start_all(job: Job, chosen: Sequence[ReplicaId], attempt: int, addresses: Addresses) -> tuple[Start, ...]:
    """Wire replicas of an attempt; what all of them are told is put together once."""
    shared: dict[str, str] = {}
    return tuple(start(job, one, attempt, addresses, shared) for one in chosen)


def start(
    job: Job, member: ReplicaId, attempt: int, addresses: Addresses, shared: dict[str, str] | None = None
) -> Start:
    """Wire one replica of an attempt."""
    role = role_of(job, member)
    place = ReplicaContext(job, role, member.index, attempt, addresses, {} if shared is None else shared)
    restart = Restart.NEVER if job.unit is RestartScope.GANG else role.restart
    return Start(
        replica=member.name,
        role=role.name,
        index=member.index,
        attempt=attempt,
        pod=_wired(place, kinds.of(job).wire(place)),
        restarts_in_place=restart.in_place,
        restarts_always=restart is Restart.ALWAYS,
        main=role.main,
    )


def demand(job: Job, member: ReplicaId, done: frozenset[str]) -> Demand | None:
    """What a replica needs before it may start; one that is done needs at most its address."""
    role = role_of(job, member)
    ports = tuple(dict.fromkeys(name for one in role.pod.containers for name in one.ports))
    if member.name not in done:
        return Demand(member.name, role.pod.claims, ports)
    idle = replace(role.pod.claims, cpu=0, memory=0, devices={})
    return Demand(member.name, idle, ports) if ports else None


def role_of(job: Job, member: ReplicaId) -> Role:
    role = job.role(member.role)
    assert role is not None, f"{member.name} has a role that its job does not declare"
    return role


def _wired(place: ReplicaContext, env: tuple[EnvVar, ...]) -> PodSpec:
    kind = kinds.of(place.job)
    everywhere = kind.injects is Injects.EVERY
    pod = place.role.pod
    # Only kinds whose replicas listen on a named port are found by address; to the others
    # (MPI) a replica's name is an identity that their own agent understands.
    translate = _Translation(place) if place.addresses.book and kind.port[0] else None
    containers = tuple(
        _with_env(one, env if everywhere or one.name == place.role.main else (), translate)
        for one in pod.containers
    )
    inits = tuple(_with_env(one, (), translate) for one in pod.init_containers)
    return replace(pod, containers=containers, init_containers=inits)


def _with_env(container: Container, env: tuple[EnvVar, ...], translate: _Translation | None) -> Container:
    merged = (*container.env, *env)
    if translate is None:
        return replace(container, env=merged)
    return replace(
        container,
        command=tuple(translate(part) for part in container.command),
        args=tuple(translate(part) for part in container.args),
        env=tuple(replace(one, value=translate(one.value)) if one.value else one for one in merged),
    )


class _Translation:
    """Replaces the names that only a cluster resolves by the addresses that hold here."""

    def __init__(self, place: ReplicaContext) -> None:
        self._hosts: dict[str, str] = {}
        self._ports: dict[tuple[str, int], int] = {}
        for member in replica_ids(place.job):
            host = place.addresses.host(member.name)
            self._hosts[member.name] = host
            for container in role_of(place.job, member).pod.containers:
                for name, number in container.ports.items():
                    port = place.addresses.port(member.name, name, number)
                    self._ports[member.name, number] = port
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
