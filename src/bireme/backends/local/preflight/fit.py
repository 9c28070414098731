"""Shrinks a job that was made for a larger machine to this one, and says what was changed."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from bireme.core.machine.admission import Capacity
from bireme.model.job import Job
from bireme.model.pods import Container, Resources
from bireme.model.quantities import show_cpu, show_memory

_SHARE = 0.9
"""How much of the memory a shrunk job may claim: the rest is for the machine itself."""


def shrunk(job: Job, capacity: Capacity) -> tuple[Job, list[str]]:
    """The job with cpus, memory and devices reduced to what the machine has, and what was changed."""
    notes: list[str] = []
    job = _without_missing_devices(job, capacity, notes)
    cpu = sum((role.pod.claims.cpu or 0) * role.replicas for role in job.roles)
    if cpu > capacity.cpu:
        notes.append(f"--fit: it claims {show_cpu(capacity.cpu)} instead of {show_cpu(cpu)}")
        job = _scaled(job, cpu=capacity.cpu / cpu, memory=1.0)
    memory = sum((role.pod.claims.memory or 0) * role.replicas for role in job.roles)
    room = int(capacity.memory * _SHARE)
    if memory > room:
        notes.append(f"--fit: it claims {show_memory(room)} of memory instead of {show_memory(memory)}")
        job = _scaled(job, cpu=1.0, memory=room / memory)
    return job, notes


def _without_missing_devices(job: Job, capacity: Capacity, notes: list[str]) -> Job:
    asked: dict[str, int] = {}
    for role in job.roles:
        for name, count in role.pod.claims.devices.items():
            asked[name] = asked.get(name, 0) + count * role.replicas
    keep: dict[str, float] = {}
    for name, count in asked.items():
        there = len(capacity.devices.get(name, ()))
        keep[name] = min(1.0, there / count) if count else 1.0
        if there < count:
            notes.append(f"--fit: it claims {there} {name} instead of {count}")
    return _each_container(
        job,
        lambda limits: replace(
            limits,
            devices={
                name: int(count * keep.get(name, 1.0))
                for name, count in limits.devices.items()
                if int(count * keep.get(name, 1.0))
            },
        ),
    )


def _scaled(job: Job, cpu: float, memory: float) -> Job:
    def smaller(limits: Resources) -> Resources:
        return replace(
            limits,
            cpu=None if limits.cpu is None else max(1, int(limits.cpu * cpu)),
            memory=None if limits.memory is None else max(1, int(limits.memory * memory)),
        )

    return _each_container(job, smaller)


def _each_container(job: Job, change: Callable[[Resources], Resources]) -> Job:
    def changed(container: Container) -> Container:
        return replace(container, requests=change(container.requests), limits=change(container.limits))

    roles = []
    for role in job.roles:
        containers = tuple(changed(container) for container in role.pod.containers)
        inits = tuple(changed(container) for container in role.pod.init_containers)
        roles.append(replace(role, pod=replace(role.pod, containers=containers, init_containers=inits)))
    return replace(job, roles=tuple(roles))
