"""Puts into a job what the command line supplies in place of an image and a cluster."""

from __future__ import annotations

from msgspec.structs import replace

from bireme import kinds
from bireme.model.job import Job
from bireme.model.pods import Container, EnvVar, HostPath, VolumeClaim
from bireme.runs.run_files import Overrides

_PLACEHOLDER = ("/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait; done")
"""A worker that would wait in an ssh server waits in this: our agent starts its work."""


def applied(job: Job, overrides: Overrides) -> Job:
    """The job with the user's variables, commands and volumes put in."""
    roles = []
    for role in job.roles:
        pod = role.pod
        is_placeholder = kinds.of(job).is_placeholder(job, role)
        containers = []
        for container in pod.containers:
            is_main = container.name == role.main
            if is_main and is_placeholder:
                containers.append(replace(container, command=_PLACEHOLDER, args=()))
                continue
            if is_main and overrides.command and not container.command:
                container = replace(container, command=overrides.command)
            containers.append(_with_variables(container, overrides))
        inits = tuple(_with_variables(container, overrides) for container in pod.init_containers)
        volumes = tuple(
            replace(volume, source=HostPath(overrides.volumes[volume.name]))
            if volume.name in overrides.volumes and not isinstance(volume.source, VolumeClaim)
            else volume
            for volume in pod.volumes
        )
        pod = replace(pod, containers=tuple(containers), init_containers=inits, volumes=volumes)
        roles.append(replace(role, pod=pod))
    return replace(job, roles=tuple(roles))


def images(job: Job) -> list[str]:
    """The images that are not used here."""
    found = [container.image for role in job.roles for container in role.pod.containers if container.image]
    return list(dict.fromkeys(found))


def _with_variables(container: Container, overrides: Overrides) -> Container:
    """The container with the user's values, each where it was: others may refer to it there."""
    given = {name: EnvVar(name, value.replace("$", "$$")) for name, value in overrides.env.items()}
    own = {variable.name for variable in container.env}
    # New ones come first, so that every variable of the manifest can refer to them.
    new = (variable for name, variable in given.items() if name not in own)
    return replace(container, env=(*new, *(given.get(variable.name, variable) for variable in container.env)))
