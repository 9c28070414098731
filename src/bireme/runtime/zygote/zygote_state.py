"""Writes down what a zygote is: readers learn it without waiting for its answer.

The file's time is when the zygote last had something to do. A process is the one that wrote the file if its
number and its start agree, in the same start of the same machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Dict, Iterable, List

from .. import linux


def write(path: str, ready: bool, roots: Iterable[str] = (), modules: Iterable[str] = ()) -> None:
    """Replaces the file at once; nothing is written where there is no room."""
    pid = os.getpid()
    content = {
        "pid": pid,
        "start_time": linux.start_time(pid),
        "system": system(),
        "ready": ready,
        "roots": list(roots),
        "packages": sorted({name.partition(".")[0] for name in modules}),
        "sites": sites(),
        "memory": memory(pid),
    }
    fresh = f"{path}.{pid}"
    with contextlib.suppress(OSError):
        with open(fresh, "w", encoding="ascii") as file:
            json.dump(content, file)
        os.replace(fresh, path)


def touch(path: str) -> None:
    """Notes that the zygote is in use now."""
    with contextlib.suppress(OSError):
        os.utime(path)


def system() -> str:
    """Names the start of the machine, and the namespace in which process numbers count."""
    boot = ""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    with contextlib.suppress(OSError):
        boot += " " + os.readlink("/proc/self/ns/pid")
    return boot


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal: it does not answer until it is continued."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t")
    except (OSError, IndexError):
        return False


def sites() -> List[str]:
    """The folders of third-party packages from which this interpreter imports."""
    return [folder for folder in sys.path if folder.endswith(("site-packages", "dist-packages"))]


def has_ranks(pid: int) -> bool:
    """Whether ranks of a zygote are alive, or what they started; spares do not count."""
    zygote = linux.process(pid)
    # A rank has a session of its own, and so has all that comes from it; a spare is still in the zygote's.
    return zygote is not None and any(child.session != zygote.session for child in linux.family(pid).values())


def memory(pid: int) -> int:
    """The bytes that a zygote and its spares hold alone, and their share of what they hold with others.

    Pages of files are left out: they are the page cache's, which keeps or drops them as it needs.
    """
    zygote, spares = linux.process(pid), []
    with (
        contextlib.suppress(OSError, ValueError),
        open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file,
    ):
        family = [linux.process(int(word)) for word in file.read().split()]
        spares = [child.pid for child in family if child and zygote and child.session == zygote.session]
    total = 0
    for process in (pid, *spares):
        shares: Dict[str, int] = {}
        with (
            contextlib.suppress(OSError, ValueError, IndexError),
            open(f"/proc/{process}/smaps_rollup", "rb") as rollup,
        ):
            rollup.readline()
            for line in rollup:
                name, _, rest = line.decode("ascii").partition(":")
                shares[name] = int(rest.split()[0]) * 1024
        # An older kernel tells no anonymous pages apart.
        own = shares.get("Pss_Anon", shares.get("Pss", 0))
        total += own + (shares.get("Pss_Shmem", 0) if "Pss_Anon" in shares else 0)
    return total
