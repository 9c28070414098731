"""What the command line overrides in place of an image and a cluster, put into a job."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from bireme import kinds
from bireme.model.job import Job, Role
from bireme.model.pods import Container, EnvVar, HostPath, VolumeClaim
from bireme.runs.run_files import Overrides

_PLACEHOLDER = ("/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait; done")


def applied(job: Job, overrides: Overrides) -> Job:
    """The job with the user's variables, commands and volumes put in."""
    return replace(job, roles=tuple(_role(job, role, overrides) for role in job.roles))


def images(job: Job) -> list[str]:
    """The images that are not used here."""
    found = [one.image for role in job.roles for one in role.pod.containers if one.image]
    return list(dict.fromkeys(found))


def _role(job: Job, role: Role, overrides: Overrides) -> Role:
    pod = role.pod
    idle = kinds.of(job).is_placeholder(job, role)
    containers = tuple(
        _idle(one)
        if idle and one.name == role.main
        else _container(one, overrides, commanded=one.name == role.main)
        for one in pod.containers
    )
    inits = tuple(_container(one, overrides, commanded=False) for one in pod.init_containers)
    volumes = tuple(
        replace(one, source=HostPath(overrides.volumes[one.name]))
        if one.name in overrides.volumes and not isinstance(one.source, VolumeClaim)
        else one
        for one in pod.volumes
    )
    return replace(role, pod=replace(pod, containers=containers, init_containers=inits, volumes=volumes))


def _idle(container: Container) -> Container:
    """A worker that would wait in an ssh server waits in a placeholder: our agent starts its work."""
    return replace(container, command=_PLACEHOLDER, args=())


def _container(container: Container, overrides: Overrides, *, commanded: bool) -> Container:
    command = container.command
    if commanded and overrides.command and not command:
        command = overrides.command
    return replace(container, env=tuple(_variables(container, overrides)), command=command)


def _variables(container: Container, overrides: Overrides) -> Iterator[EnvVar]:
    """The container's variables with the user's values, each where it was: others may refer to it there."""
    given = {name: EnvVar(name, value.replace("$", "$$")) for name, value in overrides.env.items()}
    own = {one.name for one in container.env}
    # New ones come first, so that every variable of the manifest can refer to them.
    yield from (one for name, one in given.items() if name not in own)
    yield from (given.get(one.name, one) for one in container.env)
