"""Finds what a job needs and this machine lacks: everything at once, each with the option that supplies it.

A manifest is written for an image and a cluster. What neither of them can supply here would otherwise be
found one by one, by ranks that start and fail.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from bireme import kinds
from bireme.core.replicas import container_env
from bireme.core.scripts import command_lines
from bireme.core.scripts.command_lines import OpenedFile, Use
from bireme.model.job import Job, Role
from bireme.model.pods import (
    Container,
    EmptyDir,
    EnvVar,
    FieldRef,
    HostPath,
    KeyRef,
    Mount,
    OtherVolume,
    RefFiles,
    Volume,
    VolumeClaim,
)
from bireme.model.replicas import Addresses
from bireme.runs.run_files import Overrides

_ANY_FOLDER = "./folder"
_ANY_VALUE = "VALUE"
_SYSTEM = frozenset(f"{top}{folder}" for top in ("", "/usr", "/usr/local") for folder in ("/bin", "/sbin"))
"""Folders of programs that this machine needs itself: nothing may be mapped over them."""
_FILL_LATER = (EmptyDir, RefFiles, OtherVolume)
"""Volumes whose files are not on this machine yet when a job is submitted."""
_NO_FACTS = container_env.Facts(name="", namespace="", uid="", ip="", node="")


class MissingInput(Struct, frozen=True):
    """Something that nothing supplies, and what would."""

    where: str
    text: str
    flags: tuple[str, ...] = ()
    """Words which, added to the command line, supply it."""
    hint: str = ""
    """What helps where no option does."""

    def __str__(self) -> str:
        helps = shlex.join(self.flags) or self.hint
        said = f"{self.where}: {self.text}" if self.where else self.text
        return f"{said} ({helps})" if helps else said


class Around(Struct, frozen=True):
    """What there is besides the manifest."""

    overrides: Overrides
    cwd: str
    """The folder that relative paths of the job are meant from."""
    references: container_env.References
    path: str
    """Where programs are looked for."""
    claims: Path
    """Where persistent volume claims live that no option names."""
    python: str
    """The interpreter that `python` means."""


def refusals(job: Job, around: Around) -> list[MissingInput]:
    """Everything that the job still lacks on this machine; what several roles lack is said once."""
    found: dict[tuple[str, str, tuple[str, ...], str], dict[str, None]] = {}
    for role in job.roles:
        if role.replicas == 0:
            continue
        lacks = list(_volumes(role, around))
        files = frozenset(file.path for file in kinds.of(job).files(job, frozenset(), Addresses()))
        for container in (*role.pod.init_containers, *role.pod.containers):
            where = f"container {container.name}"
            lacks += _references(where, container, around.references)
            lacks += _Program(role, container, around, files).refusals(where)
        for lack in lacks:
            found.setdefault((lack.where, lack.text, lack.flags, lack.hint), {})[role.type] = None
    return [
        MissingInput(f"{' and '.join(types)} {where}", text, flags, hint)
        for (where, text, flags, hint), types in found.items()
    ]


def empty_claims(job: Job, around: Around) -> dict[str, Path]:
    """The claims that nothing supplies and whose folders hold nothing, with those folders."""
    named = {
        volume.source.name: _claim_folder(volume.source, around)
        for role in job.roles
        if role.replicas
        for volume in role.pod.volumes
        if isinstance(volume.source, VolumeClaim)
    }
    empty = {}
    for name, folder in named.items():
        try:
            is_empty = not any(folder.iterdir())
        except OSError:
            is_empty = True
        if is_empty and name not in around.overrides.volumes:
            empty[name] = folder
    return empty


def volume_flags(claim: str, job: Job, around: Around) -> tuple[str, ...]:
    """The option that would supply a claim: a folder of its name, or of its mount's, where there is one."""
    names = [claim]
    for role in job.roles:
        mounted = {volume.name for volume in role.pod.volumes if isinstance(volume.source, VolumeClaim)}
        mounts = [
            mount
            for container in role.pod.containers
            for mount in container.mounts
            if mount.volume in mounted
        ]
        names += [os.path.basename(mount.path.rstrip("/")) for mount in mounts]
    folders = (Path(around.cwd, name) for name in names if name)
    found = next((folder for folder in folders if os.path.isdir(folder)), None)
    return ("--volume", f"{claim}={_shown(found)}")


def _volumes(role: Role, around: Around) -> Iterator[MissingInput]:
    for volume in role.pod.volumes:
        where = f"volume {volume.name}"
        flags = ("--volume", f"{volume.name}={_ANY_FOLDER}")
        match volume.source:
            case HostPath(path) if not os.path.exists(path):
                yield MissingInput(where, f"this machine has no {path}", flags)
            case OtherVolume(type):
                yield MissingInput(where, f"a volume of type {type} needs a cluster", flags)
            case RefFiles(kind, name, _, False) if (kind, name) not in around.references:
                yield MissingInput(where, f"{kind} {name} is not among the documents", flags)
            case _:
                pass


def _references(
    where: str, container: Container, references: container_env.References
) -> Iterator[MissingInput]:
    for variable in container.env:
        flags = ("--env", f"{variable.name}={_ANY_VALUE}")
        match variable.source:
            case KeyRef(kind, name, key, False) if key not in references.get((kind, name), {}):
                text = f"variable {variable.name} comes from key {key} of {kind} {name}, which is not here"
                yield MissingInput(where, text, flags)
            case FieldRef(path):
                try:
                    probe = Container(name="probe", env=(EnvVar("PROBE", source=variable.source),))
                    container_env.environment(probe, _NO_FACTS, {}, {})
                except container_env.Unresolved:
                    text = f"variable {variable.name} comes from {path}, which only a cluster knows"
                    yield MissingInput(where, text, flags)
            case _:
                pass
    for bundle in container.env_from:
        if (bundle.kind, bundle.name) not in references and not bundle.optional:
            yield MissingInput(
                where,
                f"its variables come from {bundle.kind} {bundle.name}, which is not among the documents",
                ("-f", f"{bundle.name}.yaml"),
            )


class _Program:
    """The command of a container, and the files that it would find here."""

    def __init__(self, role: Role, container: Container, around: Around, files: frozenset[str]) -> None:
        self._container = container
        self._around = around
        self._overrides, self._cwd = around.overrides, around.cwd
        self._volumes = {volume.name: volume for volume in role.pod.volumes}
        self._mounts = sorted(container.mounts, key=lambda mount: -len(mount.path))
        self._files = files
        self._is_alone = not role.pod.init_containers and len(role.pod.containers) == 1

    def refusals(self, where: str) -> Iterator[MissingInput]:
        container = self._container
        if not container.command:
            text = "it has no command: its image's entrypoint is not on this machine"
            yield MissingInput(where, text, ("--command", "python train.py"))
            return
        opened = command_lines.opened((*container.command, *container.args))
        if container.working_dir and self._lacks(container.working_dir):
            text = f"its workingDir {container.working_dir} is not on this machine"
            scripts = [
                file.path for file in opened if file.use is Use.SCRIPT and not file.path.startswith("/")
            ]
            yield MissingInput(where, text, self._flags(container.working_dir, scripts))
            return
        for file in opened:
            if lack := self._lack(where, file):
                yield lack

    def _lack(self, where: str, file: OpenedFile) -> MissingInput | None:
        folder = self._container.working_dir or self._cwd
        path = os.path.join(folder, file.path)
        is_program, is_python = file.use is Use.PROGRAM, command_lines.is_python(file.path)
        if is_program and "/" not in file.path:
            if not file.is_first or is_python or shutil.which(file.path, path=self._around.path):
                return None
            text = f"there is no program {file.path} on this machine"
            return MissingInput(where, text, hint=f"install {file.path}")
        if not self._lacks(path):
            return None
        text = f"there is no {file.use} {file.path}"
        # Which option should have supplied it, and does not.
        if (mount := self._mount_of(file.path)) is not None:
            text += f" in volume {mount.volume}"
        elif covering := next((root for root in self._overrides.maps if _is_below(file.path, root)), None):
            text += f" in what --map {covering} supplies"
        if not file.path.startswith("/"):
            return MissingInput(where, text, hint=f"the job runs in {folder}: put it there")
        if is_python and os.path.dirname(file.path) in ("/bin", "/usr/bin"):
            return MissingInput(
                where, text, hint=f"write python instead, which is {self._around.python} here"
            )
        if is_python and is_program:
            return MissingInput(where, text, self._interpreter_flags(file.path))
        if is_program and os.path.dirname(os.path.normpath(path)) in _SYSTEM:
            return MissingInput(where, text, hint=f"install {os.path.basename(path)}")
        return MissingInput(where, text, self._flags(os.path.dirname(path), [os.path.basename(path)]))

    def _lacks(self, path: str) -> bool:
        """Whether a path is known not to be there when the program starts."""
        path = os.path.normpath(path)
        mount = self._mount_of(path)
        if mount is None:
            if any(_is_below(path, os.path.dirname(file)) for file in self._files):
                return False
            here = Path(self._cwd, path)
            for target, source in sorted(self._overrides.maps.items(), key=lambda item: -len(item[0])):
                if _is_below(path, target):
                    here = Path(self._cwd, source, os.path.relpath(path, target))
                    break
            # A path that may not be looked at counts as missing: then it is asked for.
            return not os.path.exists(here)
        rest = os.path.join(mount.sub_path, os.path.relpath(path, mount.path))
        match self._volumes.get(mount.volume):
            # Other containers of the replica may put files into the volumes that they share.
            case Volume(source=HostPath(folder)) if self._is_alone:
                return not os.path.exists(os.path.join(folder, rest))
            case Volume(source=VolumeClaim() as claim) if self._is_alone:
                return not os.path.exists(_claim_folder(claim, self._around) / rest)
            case _:
                return False

    def _mount_of(self, path: str) -> Mount | None:
        return next((mount for mount in self._mounts if _is_below(path, mount.path)), None)

    def _flags(self, folder: str, names: Sequence[str]) -> tuple[str, ...]:
        """The option that would supply a folder of the image, with the folder here that has its files."""
        mount = self._mount_of(folder)
        source = self._volumes[mount.volume].source if mount and mount.volume in self._volumes else None
        here = _shown(_with_files(Path(self._cwd), folder, names))
        if mount is not None:
            return ("--volume", f"{source.name if isinstance(source, VolumeClaim) else mount.volume}={here}")
        if folder == "/":  # which cannot be mapped as a whole: the file itself is
            found = _with_files(Path(self._cwd), folder, names)
            return ("--map", f"/{names[0]}={_shown(found / names[0]) if found else f'./{names[0]}'}")
        return ("--map", f"{folder}={here}")

    def _interpreter_flags(self, word: str) -> tuple[str, ...]:
        """The option that puts this machine's environment where the image has its own."""
        folder, name = os.path.split(word)
        prefix = os.path.dirname(os.path.dirname(self._around.python))
        if os.path.basename(folder) == "bin" and os.path.exists(os.path.join(prefix, "bin", name)):
            return ("--map", f"{os.path.dirname(folder)}={prefix}")
        return ("--map", f"{folder}={_ANY_FOLDER}")


def _claim_folder(claim: VolumeClaim, around: Around) -> Path:
    given = around.overrides.volumes.get(claim.name)
    return around.claims / claim.name if given is None else Path(around.cwd, given)


def _is_below(path: str, folder: str) -> bool:
    stem = folder.rstrip("/")
    return path == stem or path.startswith(f"{stem}/")


def _with_files(cwd: Path, folder: str, names: Iterable[str]) -> Path | None:
    """The folder at hand that holds the files which an image has in a folder of its own."""
    wanted = [name for name in names if name]
    if not wanted:
        return None
    try:
        below = sorted(
            path for path in cwd.iterdir() if os.path.isdir(path) and not path.name.startswith(".")
        )
    except OSError:
        below = []
    likely = (cwd / os.path.basename(folder.rstrip("/")), cwd, *below)
    return next((path for path in likely if all(os.path.isfile(path / name) for name in wanted)), None)


def _shown(folder: Path | None) -> str:
    """A folder as the user would write it."""
    if folder is None:
        return _ANY_FOLDER
    relative = os.path.relpath(folder)
    return str(folder) if relative.startswith("..") else os.path.join(".", relative)
