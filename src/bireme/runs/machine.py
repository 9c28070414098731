"""This machine: its name, how much of it may be used, and which of its ports are free."""

from __future__ import annotations

import errno
import os
import random
import re
import socket
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from bireme import errors
from bireme.core.machine.admission import Capacity
from bireme.runs.run_files import Machine

ROOT = Path("/")

FIRST_PORT = 20000
LAST_PORT = 31999
"""Below the range from which systems take ports for outgoing connections (32768 and up)."""

_SHARED = re.compile(r"nfs.*|cifs|smb.*|lustre|ceph|gpfs|beegfs.*|afs|9p|glusterfs|fuse\..*")
_ADDRESSES = (
    (socket.AF_INET, "0.0.0.0"),
    (socket.AF_INET, "127.0.0.1"),
    (socket.AF_INET6, "::"),
)
_MIB = 1024 * 1024


class Accelerators(Struct, frozen=True):
    """The devices of a machine by resource name, and which of them some program uses now."""

    ids: dict[str, tuple[str, ...]] = {}
    busy: dict[str, tuple[str, ...]] = {}


_NONE = Accelerators()


def this_machine(root: Path = ROOT) -> Machine:
    """Names this machine and its present start."""
    return Machine(socket.gethostname(), _text(root / "proc/sys/kernel/random/boot_id").strip())


def capacity(accelerators: Accelerators = _NONE, root: Path = ROOT) -> Capacity:
    """Returns what this process may use: the machine's, less what affinity and cgroups keep from it."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    quotas = [quota for folder in _groups(root, "cpu") if (quota := _quota(folder)) is not None]
    limits = [
        int(limit)
        for folder in _groups(root, "memory")
        for name in ("memory.max", "memory.limit_in_bytes")
        if (limit := _text(folder / name).strip()).isdecimal()
    ]
    return Capacity(
        cpu=max(1, min([cores * 1000, *quotas])),
        memory=min([_installed(root), *limits]),
        devices=accelerators.ids,
        busy=accelerators.busy,
    )


def is_shared(path: Path, root: Path = ROOT) -> bool:
    """Says whether a folder is on a file system that other machines may use at the same time."""
    deepest, kind = -1, ""
    for mount in _mounts(root):
        if path.is_relative_to(mount.point) and len(mount.point.parts) >= deepest:
            deepest, kind = len(mount.point.parts), mount.type
    return _SHARED.fullmatch(kind) is not None


class _Mount(Struct, frozen=True):
    root: str
    point: Path
    type: str
    options: frozenset[str]


def _quota(folder: Path) -> int | None:
    """Returns the millicores that a cgroup may use, or None if it sets no limit."""
    words = _text(folder / "cpu.max").split()
    if len(words) != 2:
        words = [_text(folder / f"cpu.cfs_{part}_us").strip() for part in ("quota", "period")]
    if not all(word.isdecimal() for word in words) or int(words[1]) == 0:
        return None
    return int(words[0]) * 1000 // int(words[1])


def _installed(root: Path) -> int:
    if match := re.search(r"^MemTotal: +([0-9]+) kB", _text(root / "proc/meminfo"), re.MULTILINE):
        return int(match[1]) * 1024
    with suppress(ValueError, OSError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 1024 * _MIB


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Yields the folders of our cgroup and of those around it, in whichever hierarchy has the controller."""
    mounts = [mount for mount in _mounts(root) if mount.type == "cgroup2" or controller in mount.options]
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        unified = not controllers
        for mount in mounts:
            if (mount.type == "cgroup2") == unified and (unified or controller in controllers.split(",")):
                yield from _upwards(root, mount, group)


def _upwards(root: Path, mount: _Mount, group: str) -> Iterator[Path]:
    # In a container the mount shows a part of the hierarchy, of which our group's path may know nothing.
    inner = os.path.relpath(group, mount.root)
    steps = [] if inner.startswith("..") else [part for part in inner.split("/") if part != "."]
    top = root / mount.point.relative_to("/")
    for length in range(len(steps), -1, -1):
        yield top.joinpath(*steps[:length])


def _mounts(root: Path) -> Iterator[_Mount]:
    for line in _text(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        _, _, _, inside, point, *_ = before.split(" ")
        type, _, options = after.split(" ", 2)
        # The kernel writes a space in a path as `\\040`.
        path = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), point)
        yield _Mount(inside, Path(path), type, frozenset(options.split(",")))


def _text(path: Path) -> str:
    """Returns the text of a system file, or nothing where the platform has no such file."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def choose_ports(count: int, taken: Collection[int], chance: random.Random | None) -> list[int]:
    """Returns free ports that are not in `taken`.

    It starts at the one that `chance` says, or at the first.
    """
    if count == 0:
        return []
    chosen: list[int] = []
    start = FIRST_PORT if chance is None else chance.randint(FIRST_PORT, LAST_PORT)
    for port in (*range(start, LAST_PORT + 1), *range(FIRST_PORT, start)):
        if port not in taken and is_free_port(port):
            chosen.append(port)
            if len(chosen) == count:
                return chosen
    raise errors.NoRoom(
        f"needs {count} ports, {len(chosen)} of {FIRST_PORT} to {LAST_PORT} are free",
        hint="`ss -tln` shows which processes listen",
    )


def is_free_port(port: int) -> bool:
    """Says whether a program could listen on this port now, on all interfaces and on the loopback alone."""
    return all(_binds(*where, port) for where in _ADDRESSES)


def _binds(family: socket.AddressFamily, host: str, port: int) -> bool:
    try:
        listener = socket.socket(family, socket.SOCK_STREAM)
    except OSError:  # a machine without IPv6
        return family == socket.AF_INET6
    with listener:
        # Without SO_REUSEADDR, so that a port with connections that still time out does not count as free:
        # not every framework sets that option.
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            return family == socket.AF_INET6 and error.errno != errno.EADDRINUSE
    return True
