"""Makes a container a program of this machine, with its environment, folder, volumes and limits."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from bireme.backends.local.processes import MARK, Input, NotStarted, Program
from bireme.core.replicas import container_env
from bireme.core.scripts.command_lines import is_python
from bireme.model.decisions import Start
from bireme.model.pods import (
    Container,
    EmptyDir,
    HostPath,
    Mount,
    OtherVolume,
    RefFiles,
    Volume,
    VolumeClaim,
)
from bireme.runs.run_files import Overrides

LOOPBACK = "127.0.0.1"

_WEAK = {"GLOO_SOCKET_IFNAME": "lo0" if os.uname().sysname == "Darwin" else "lo"}
"""Ranks on one machine talk over loopback, whatever its other interfaces are; the user may say otherwise."""


class RunEnvironment(Struct, frozen=True):
    """What this machine supplies to the replicas of one run in place of an image and a cluster."""

    run: str
    """The run's id."""
    namespace: str
    folder: Path
    """The run directory."""
    cwd: str
    environment: Mapping[str, str]
    python: str
    """The interpreter that `python` means."""
    references: container_env.References
    claims: Path
    """Where persistent volume claims live that no flag names."""
    overrides: Overrides = Overrides()
    crowded: bool = False
    """Whether replicas share the machine, so that each must keep to its cpus."""
    mounts_work: bool = False
    """Whether a rank can be given a private mount namespace."""
    stdin: Input | None = None
    """What the main container reads, where the user gave a job of one rank something to read."""


class Allocation(Struct, frozen=True):
    """What one replica was granted: its uid and its devices."""

    start: Start
    uid: str
    devices: tuple[str, ...] | None = None
    """Ids of its GPUs; None when it asked for none and may see what there is."""


def compose(
    site: RunEnvironment, placed: Allocation, container: Container, cgroups: tuple[str, ...]
) -> Program:
    """Put a container's program together; raises Unresolved for a value that nothing supplies."""
    start = placed.start
    volumes = {volume.name: volume for volume in start.pod.volumes}
    mounts = [_mounted(site, placed, mount, volumes[mount.volume]) for mount in container.mounts]
    facts = container_env.Facts(
        name=start.replica,
        namespace=site.namespace,
        uid=placed.uid,
        ip=LOOPBACK,
        node=os.uname().nodename,
        labels=start.pod.labels,
        annotations=start.pod.annotations,
    )
    environment = container_env.environment(container, facts, site.references, _inherited(site, placed))
    environment |= {
        f"BIREME_VOLUME_{_variable(mount.volume)}": source
        for mount, (source, _, _) in zip(container.mounts, mounts, strict=True)
    }
    argv = container_env.argv(container, environment)
    folder = container.working_dir or site.cwd
    files = site.folder / "files"
    if files.is_dir():
        mounts += [(str(path), f"/etc/{path.name}", True) for path in (files / "etc").iterdir()]
    mapped = [(source, target, False) for target, source in site.overrides.maps.items()]
    if site.mounts_work:
        mounts = mapped + mounts
    else:
        moved = {target: source for source, target, _ in (*mapped, *mounts)}
        argv = tuple(_moved(part, moved) for part in argv)
        environment = {
            name: _moved(value, moved) if name in {variable.name for variable in container.env} else value
            for name, value in environment.items()
        }
        folder, mounts = _moved(folder, moved), []
    return Program(
        argv=(_executable(site, argv[0], environment), *argv[1:]),
        environment=environment,
        folder=folder,
        cgroups=cgroups,
        mounts=tuple(mounts),
    )


def volume_folder(site: RunEnvironment, placed: Allocation, volume: Volume) -> Path:
    """The folder that stands for a volume here; made if absent."""
    match volume.source:
        case HostPath(path):
            return Path(path)
        case VolumeClaim(name):
            folder = Path(site.overrides.volumes.get(name) or _within(site.claims, name))
            folder.mkdir(parents=True, exist_ok=True)
            return folder
        case EmptyDir() | OtherVolume():
            folder = _within(site.folder / "volumes" / placed.uid, volume.name)
            folder.mkdir(parents=True, exist_ok=True)
            return folder
        case RefFiles(kind, name) as source:
            keys = site.references.get((kind, name))
            if keys is None and not source.optional:
                raise container_env.Unresolved(f"{kind} {name} (volume {volume.name})")
            folder = _within(site.folder / "volumes" / placed.uid, volume.name)
            folder.mkdir(parents=True, exist_ok=True)
            for key, path in (source.items or {key: key for key in keys or {}}).items():
                target = _within(folder, path)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text((keys or {}).get(key, ""))
            return folder


def _inherited(site: RunEnvironment, placed: Allocation) -> dict[str, str]:
    values = dict(site.environment)
    start = placed.start
    # `python` in a shell line must be the same interpreter as `python` in a command.
    folders = [
        str(site.folder / "files" / "bin"),
        os.path.dirname(site.python),
        values.get("PATH", os.defpath),
    ]
    values["PATH"] = os.pathsep.join(folders if Path(folders[0]).is_dir() else folders[1:])
    for name, value in _WEAK.items():
        values.setdefault(name, value)
    if site.crowded:
        # Frameworks start a thread for each core that they see, and here every replica sees all of them.
        cpus = math.ceil((start.pod.claims.cpu or 1000) / 1000)
        values.setdefault("OMP_NUM_THREADS", str(cpus))
    values |= {
        MARK: f"{site.run}/{start.attempt}",
        "BIREME_RUN_DIR": str(site.folder),
        "BIREME_REPLICA": start.replica,
        "BIREME_ROLE": start.role,
        "BIREME_ATTEMPT": str(start.attempt),
    }
    if placed.devices is not None:
        values["CUDA_VISIBLE_DEVICES"] = ",".join(placed.devices)
    return values


def _mounted(site: RunEnvironment, placed: Allocation, mount: Mount, volume: Volume) -> tuple[str, str, bool]:
    folder = volume_folder(site, placed, volume)
    is_part = bool(mount.sub_path) and os.path.normpath(mount.sub_path) != os.curdir
    source = _within(folder, mount.sub_path) if is_part else folder
    if mount.sub_path and not source.exists():
        source.mkdir(parents=True)
    read_only = mount.read_only or (isinstance(volume.source, VolumeClaim) and volume.source.read_only)
    return str(source.absolute()), mount.path, read_only


def _within(folder: Path, name: str) -> Path:
    """Join a name or a path of a manifest to a folder that it must not leave."""
    path = Path(os.path.normpath(folder / name))
    # The manifest was checked; a job that came another way, or was stored by an older version, was not.
    if path == folder or not path.is_relative_to(os.path.normpath(folder)):
        raise NotStarted(f"{name!r} leads out of the folder that it should be in")
    return path


def _executable(site: RunEnvironment, word: str, environment: Mapping[str, str]) -> str:
    if is_python(word) and os.path.basename(word) == word:
        return site.python
    if "/" in word:
        return word
    return shutil.which(word, path=environment.get("PATH")) or word


def _moved(text: str, moved: Mapping[str, str]) -> str:
    """Replace the paths of an image by the paths that supply them, where nothing can be mounted."""
    for target, source in sorted(moved.items(), key=lambda item: -len(item[0])):
        stem = target.rstrip("/")
        if text == stem or text.startswith(stem + "/"):
            return source.rstrip("/") + text[len(stem) :]
        if f"={stem}/" in text or f":{stem}/" in text:
            return text.replace(f"={stem}/", f"={source}/").replace(f":{stem}/", f":{source}/")
    return text


def _variable(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name).upper()
