"""In which control groups does a node live: one of its own in every hierarchy, removed whole."""

from __future__ import annotations

import contextlib
import functools
import os
from pathlib import Path

from tools.testcluster.places import ClusterError
from tools.testcluster.processes import until

PREFIX = "bireme-testcluster"
MOUNT = Path("/sys/fs/cgroup")


def group(cluster: str, node: str) -> str:
    """Name the group of one node."""
    return f"{PREFIX}.{cluster}.{node}"


def is_v2() -> bool:
    """Tell whether this machine has the one hierarchy of version 2."""
    return (MOUNT / "cgroup.controllers").exists()


def hierarchies() -> dict[str, str]:
    """Return the controllers of each hierarchy of version 1, by the folder that it is mounted at."""
    found = {}
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, path, kind, options, *_ = line.split()
        if kind == "cgroup" and Path(path).parent == MOUNT:
            found[Path(path).name] = _controllers(options)
    return found


def make(name: str) -> list[Path]:
    """Make a group in every hierarchy; return the files that take a process in."""
    roots = _roots()
    for root in roots:
        if is_v2():
            _hand_down(root)
        (root / name).mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            # Of version 1: empty in a new group, which then takes no process in.
            if (root / name / setting).exists() and not is_v2():
                (root / name / setting).write_text((root / setting).read_text())
    return [root / name / "cgroup.procs" for root in roots]


def remove(name: str) -> None:
    """Remove a group and all below it, when its last process is gone."""
    for root in _roots():
        path = root / name
        if not until(functools.partial(_removed, path), 10.0, pause=0.02):
            raise ClusterError(f"{path} could not be removed: something still runs in it")


def left() -> list[Path]:
    """Return the groups of test clusters that are there."""
    return [path for root in _roots() for path in root.glob(f"{PREFIX}.*")]


def _removed(path: Path) -> bool:
    for folder, _, _ in os.walk(path, topdown=False):
        # Busy while a process is still dying.
        with contextlib.suppress(OSError):
            os.rmdir(folder)
    return not path.exists()


def _roots() -> list[Path]:
    return [MOUNT] if is_v2() else [MOUNT / folder for folder in hierarchies()]


def _hand_down(root: Path) -> None:
    controllers = (root / "cgroup.controllers").read_text().split()
    for one in controllers:
        with contextlib.suppress(OSError):
            (root / "cgroup.subtree_control").write_text(f"+{one}")


def _controllers(options: str) -> str:
    """Return the part of the mount options that names controllers, or the hierarchy's own name."""
    general = {
        "rw",
        "ro",
        "nosuid",
        "nodev",
        "noexec",
        "relatime",
        "xattr",
        "clone_children",
        "release_agent",
    }
    return ",".join(one for one in options.split(",") if one.partition("=")[0] not in general)
