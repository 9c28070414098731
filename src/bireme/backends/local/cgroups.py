"""Enforces the limits of a container and finds its processes: control groups, v1 and v2.

Linux only. Where no control group can be written, `Cgroups.find` answers None, the caller says so in a
sentence, and limits are claimed in the ledger but not enforced.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from msgspec import Struct

from bireme.model.pods import Resources

_ROOT = Path("/sys/fs/cgroup")
_V1 = ("memory", "cpu", "freezer")
_PERIOD = 100_000
_FOLDER = "bireme"
_MOST_KILLS, _KILL_EVERY = 1000, 0.005
# All ranks lie below one group, which the kernel weighs like a single program unless told otherwise: beside
# ten busy ones, eight ranks together would get a tenth of the machine. They claim no more cpus than it has.
_USUAL_SHARES, _MOST_SHARES = 1024, 262_144
_USUAL_WEIGHT, _MOST_WEIGHT = 100, 10_000


class OutOfMemory(Struct, frozen=True):
    """The kernel ended a process of the group because the group's memory was used up."""

    limit: int
    peak: int


class Cgroup:
    """The control groups of one container; one folder for each controller in v1, a single one in v2."""

    def __init__(self, folders: dict[str, Path], unified: bool) -> None:
        self._folders = folders
        self._unified = unified

    @property
    def procs(self) -> list[str]:
        """The files into which a process writes `0` to join."""
        return [str(folder / "cgroup.procs") for folder in self._folders.values()]

    def limit(self, limits: Resources) -> None:
        memory, cpu = self._folders.get("memory"), self._folders.get("cpu")
        if limits.memory is not None and memory is not None:
            name = "memory.max" if self._unified else "memory.limit_in_bytes"
            _write(memory / name, str(limits.memory))
            # Swap would only turn the promised out-of-memory kill into a crawl.
            if self._unified:
                _write(memory / "memory.swap.max", "0")
            else:
                _write(memory / "memory.memsw.limit_in_bytes", str(limits.memory))
        if limits.cpu is not None and cpu is not None:
            quota = max(1000, limits.cpu * _PERIOD // 1000)
            if self._unified:
                _write(cpu / "cpu.max", f"{quota} {_PERIOD}")
            else:
                _write(cpu / "cpu.cfs_period_us", str(_PERIOD))
                _write(cpu / "cpu.cfs_quota_us", str(quota))

    def pids(self) -> set[int]:
        found: set[int] = set()
        for folder in self._folders.values():
            for path in (folder, *_below(folder)):
                found |= {int(pid) for pid in _read(path / "cgroup.procs").split()}
        return found - {0}

    def out_of_memory(self) -> OutOfMemory | None:
        """Whether the kernel killed for memory in this group, with the limit and the peak."""
        folder = self._folders.get("memory")
        if folder is None:
            return None
        events = _read(folder / ("memory.events" if self._unified else "memory.oom_control"))
        kills = dict(line.split() for line in events.splitlines() if line.count(" ") == 1).get(
            "oom_kill", "0"
        )
        if int(kills) == 0:
            return None
        names = (
            ("memory.max", "memory.peak")
            if self._unified
            else (
                "memory.limit_in_bytes",
                "memory.max_usage_in_bytes",
            )
        )
        limit, peak = (_read(folder / name).strip() for name in names)
        return OutOfMemory(int(limit) if limit.isdecimal() else 0, int(peak) if peak.isdecimal() else 0)

    def kill(self) -> bool:
        """Kill every process of the group at once; True when none is left."""
        if self._unified and (self._folders["memory"] / "cgroup.kill").exists():
            _write(self._folders["memory"] / "cgroup.kill", "1")
            return not self.pids()
        # Frozen processes cannot fork away from the kill; they die when thawed.
        freezer = self._folders.get("freezer")
        if freezer is not None:
            _write(freezer / "freezer.state", "FROZEN")
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, 9)
        if freezer is not None:
            _write(freezer / "freezer.state", "THAWED")
        return not self.pids()

    def kill_all(self) -> None:
        """Kill until no process is left, for a few seconds at most: the kernel may hold one in a driver."""
        for _ in range(_MOST_KILLS):
            if self.kill():
                return
            time.sleep(_KILL_EVERY)

    def remove(self) -> None:
        for folder in self._folders.values():
            for path in (*sorted(_below(folder), reverse=True), folder):
                with contextlib.suppress(OSError):
                    path.rmdir()


class Cgroups:
    """The place below which replicas get their groups."""

    def __init__(self, bases: dict[str, Path], unified: bool) -> None:
        self._bases = bases
        self.unified = unified

    @classmethod
    def find(cls) -> Cgroups | None:
        """The groups of this process, if groups can be made below them."""
        if not _ROOT.is_dir():
            return None
        own = {name: path for controllers, path in _own_lines() for name in controllers.split(",")}
        if (_ROOT / "cgroup.controllers").exists():
            group = _ROOT / own.get("", "").lstrip("/")
            base = group / _FOLDER
            try:
                base.mkdir(exist_ok=True)
                # A group with processes cannot hand controllers down, so this works for a delegated
                # subtree or a root group and is refused elsewhere.
                (group / "cgroup.subtree_control").write_text("+memory +cpu")
                (base / "cgroup.subtree_control").write_text("+memory +cpu")
            except OSError:
                return None
            _write(base / "cpu.weight", str(min(_USUAL_WEIGHT * _cores(), _MOST_WEIGHT)))
            return cls({"memory": base, "cpu": base}, unified=True)
        bases: dict[str, Path] = {}
        for controller in _V1:
            base = _ROOT / controller / own.get(controller, "").lstrip("/") / _FOLDER
            with contextlib.suppress(OSError):
                base.mkdir(exist_ok=True)
                bases[controller] = base
        if "cpu" in bases:
            _write(bases["cpu"] / "cpu.shares", str(min(_USUAL_SHARES * _cores(), _MOST_SHARES)))
        return cls(bases, unified=False) if "memory" in bases else None

    def group(self, *path: str) -> Cgroup | None:
        """Make (or find again) the group of one container."""
        folders: dict[str, Path] = {}
        for controller, base in self._bases.items():
            # One level only: in v2 each level between would have to hand its controllers down.
            folder = base / _flat(path)
            try:
                folder.mkdir(exist_ok=True)
            except OSError:
                continue
            folders[controller] = folder
        return Cgroup(folders, self.unified) if folders else None

    def groups(self, *prefix: str) -> list[Cgroup]:
        """Every group below a run or a replica that still exists."""
        names = {
            folder.name
            for base in self._bases.values()
            for folder in base.glob(_flat(prefix) + "--*")
            if folder.is_dir()
        }
        return [
            Cgroup({key: base / name for key, base in self._bases.items()}, self.unified)
            for name in sorted(names)
        ]


def leave() -> None:
    """Move this process out of the groups of a replica, if it is in some, to those of its runner."""
    for controllers, path in _own_lines():
        above, found, _ = path.rpartition(f"/{_FOLDER}/")
        if found:
            root = _ROOT / controllers.removeprefix("name=") if controllers else _ROOT
            _write(root / above.lstrip("/") / "cgroup.procs", "0")


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _flat(path: tuple[str, ...]) -> str:
    return "--".join(part.replace("/", "_") for part in path)


def _own_lines() -> list[tuple[str, str]]:
    """Controllers, as one text, and path of each group that this process is in."""
    lines = _read(Path("/proc/self/cgroup")).splitlines()
    return [(controllers, path) for _, controllers, path in (line.split(":", 2) for line in lines)]


def _below(folder: Path) -> list[Path]:
    return [Path(path) for path, _, _ in os.walk(folder)][1:]


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _write(path: Path, text: str) -> None:
    with contextlib.suppress(OSError):
        path.write_text(text)
