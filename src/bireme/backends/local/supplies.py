"""What does the command line supply in place of an image and a cluster, and is it enough.

Everything that a manifest needs and this machine cannot know is asked for by name here, before anything
starts: each refusal names the flag that answers it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from bireme.backends.local.programs import is_python
from bireme.core import podenv
from bireme.kinds import mpi
from bireme.model.job import Job, Kind, Role
from bireme.model.pods import Claim, Container, EnvVar, FieldRef, HostPath, KeyRef, OtherVolume, RefFiles

_PLACEHOLDER = ("/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait; done")


class Supplies(Struct, frozen=True):
    """What the user gives on top of the manifest."""

    environment: Mapping[str, str] = {}
    maps: Mapping[str, str] = {}
    volumes: Mapping[str, str] = {}
    command: tuple[str, ...] = ()
    python: str = ""
    cwd: str = "."


class Refusal(Struct, frozen=True):
    """Something that nobody supplies, and the flag that would."""

    where: str
    text: str
    hint: str


def applied(job: Job, supplies: Supplies) -> Job:
    """The job with the user's variables, commands and volumes put in."""
    return replace(job, roles=tuple(_role(job, role, supplies) for role in job.roles))


def refusals(job: Job, supplies: Supplies, references: podenv.References, path: str) -> Iterator[Refusal]:
    """Everything that the job still lacks on this machine."""
    for role in job.roles:
        if role.replicas == 0:
            continue
        yield from _volume_refusals(role, references)
        for container in (*role.pod.init_containers, *role.pod.containers):
            where = f"{role.type} container {container.name}"
            yield from _reference_refusals(where, container, references)
            yield from _command_refusals(where, container, supplies, path)


def images(job: Job) -> list[str]:
    """The images that are not used here."""
    found = [one.image for role in job.roles for one in role.pod.containers if one.image]
    return list(dict.fromkeys(found))


def _role(job: Job, role: Role, supplies: Supplies) -> Role:
    pod = role.pod
    idle = job.kind is Kind.MPI and mpi.idles(job, role)
    containers = tuple(
        _idle(one)
        if idle and one.name == role.main
        else _container(one, supplies, commanded=one.name == role.main)
        for one in pod.containers
    )
    inits = tuple(_container(one, supplies, commanded=False) for one in pod.init_containers)
    volumes = tuple(
        replace(one, source=HostPath(str(_absolute(supplies.volumes[one.name], supplies))))
        if one.name in supplies.volumes and not isinstance(one.source, Claim)
        else one
        for one in pod.volumes
    )
    return replace(role, pod=replace(pod, containers=containers, init_containers=inits, volumes=volumes))


def _idle(container: Container) -> Container:
    """A worker that would wait in an ssh server waits in a placeholder: our agent starts its work."""
    return replace(container, command=_PLACEHOLDER, args=())


def _container(container: Container, supplies: Supplies, *, commanded: bool) -> Container:
    given = supplies.environment
    env = tuple(one for one in container.env if one.name not in given)
    env += tuple(EnvVar(name, value.replace("$", "$$")) for name, value in given.items())
    command = container.command
    if commanded and supplies.command and not command:
        command = supplies.command
    return replace(container, env=env, command=command)


def _volume_refusals(role: Role, references: podenv.References) -> Iterator[Refusal]:
    for volume in role.pod.volumes:
        where = f"{role.type} volume {volume.name}"
        match volume.source:
            case HostPath(path) if not Path(path).exists():
                yield Refusal(where, f"this machine has no {path}", f"--volume {volume.name}=./folder")
            case OtherVolume(type):
                yield Refusal(
                    where, f"a volume of type {type} needs a cluster", f"--volume {volume.name}=./folder"
                )
            case RefFiles(kind, name, _, False) if (kind, name) not in references:
                yield Refusal(
                    where,
                    f"{kind} {name} is not among the documents",
                    f"add the {kind} to the file, or --volume {volume.name}=./folder",
                )
            case _:
                pass


def _reference_refusals(where: str, container: Container, references: podenv.References) -> Iterator[Refusal]:
    for variable in container.env:
        match variable.source:
            case KeyRef(kind, name, key, False) if key not in references.get((kind, name), {}):
                yield Refusal(
                    where,
                    f"variable {variable.name} comes from key {key} of {kind} {name}, which is not here",
                    f"--env {variable.name}=VALUE",
                )
            case FieldRef(path) if not _is_known_field(path):
                yield Refusal(
                    where,
                    f"variable {variable.name} comes from {path}, which only a cluster knows",
                    f"--env {variable.name}=VALUE",
                )
            case _:
                pass
    for bundle in container.env_from:
        if (bundle.kind, bundle.name) not in references and not bundle.optional:
            yield Refusal(
                where,
                f"its variables come from {bundle.kind} {bundle.name}, which is not here",
                f"add the {bundle.kind} to the file, or give each variable with --env NAME=VALUE",
            )


def _command_refusals(where: str, container: Container, supplies: Supplies, path: str) -> Iterator[Refusal]:
    argv = (*container.command, *container.args)
    if not container.command:
        yield Refusal(
            where,
            "it has no command: its image's entrypoint is not on this machine",
            '--command "python train.py"',
        )
        return
    folder = container.working_dir or supplies.cwd
    if container.working_dir and not _exists(container.working_dir, supplies):
        yield Refusal(
            where,
            f"its workingDir {container.working_dir} is not on this machine",
            f"--map {container.working_dir}=./folder",
        )
        return
    word = argv[0]
    if "$(" in word:
        return
    if is_python(word):
        yield from _script_refusals(where, argv, folder, supplies)
    elif "/" in word and not _exists(os.path.join(folder, word), supplies):
        yield Refusal(where, f"there is no program {word}", f"--map {os.path.dirname(word)}=./folder")
    elif "/" not in word and shutil.which(word, path=path) is None:
        yield Refusal(
            where, f"there is no program {word} on this machine", f"install {word}, or use --command"
        )


def _script_refusals(where: str, argv: tuple[str, ...], folder: str, supplies: Supplies) -> Iterator[Refusal]:
    script = next((word for word in argv[1:] if word != "-u"), "")
    if script.startswith("-") or not script.endswith(".py") or "$(" in script:
        return
    if not _exists(os.path.join(folder, script), supplies):
        hint = (
            f"--map {os.path.dirname(script)}=./folder"
            if script.startswith("/")
            else "run it from its folder"
        )
        yield Refusal(where, f"there is no script {script}", hint)


def _exists(path: str, supplies: Supplies) -> bool:
    """Whether a path is there, through the maps where one covers it."""
    for target, source in supplies.maps.items():
        stem = target.rstrip("/")
        if path == stem or path.startswith(stem + "/"):
            return _absolute(source, supplies).joinpath(path[len(stem) :].lstrip("/")).exists()
    return _absolute(path, supplies).exists()


def _absolute(path: str, supplies: Supplies) -> Path:
    return Path(supplies.cwd, path).absolute()


def _is_known_field(path: str) -> bool:
    facts = podenv.Facts(name="", namespace="", uid="", ip="", node="")
    probe = Container(name="probe", env=(EnvVar("PROBE", source=FieldRef(path)),))
    try:
        podenv.environment(probe, facts, {}, {})
    except podenv.Unresolved:
        return False
    return True
