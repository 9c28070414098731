"""Which processes are ours: each is known by its number and its start, so that no stranger is ever ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tools.testcluster.places import ClusterError


class Process(NamedTuple):
    """One process of a cluster."""

    name: str
    pid: int
    started: int
    """In clock ticks since the machine started: a number that is used again starts at another time."""


def spawn(name: str, argv: Sequence[str], log: Path, environ: Mapping[str, str] | None = None) -> Process:
    """Start a program that outlives this one."""
    log.parent.mkdir(parents=True, exist_ok=True)
    pid = os.posix_spawnp(
        argv[0],
        list(argv),
        dict(os.environ if environ is None else environ),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    return identify(name, pid)


def bare_environ() -> dict[str, str]:
    """Return what a program of a cluster is told: no proxy, no setting of whoever started it."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
    }


def identify(name: str, pid: int) -> Process:
    """Remember a running process."""
    return Process(name, pid, _stat(pid)[1])


def alive(process: Process) -> bool:
    """Tell whether this very process still runs."""
    _reap(process.pid)
    state, started = _stat(process.pid)
    return started == process.started and state not in "ZX"


def end(processes: Sequence[Process], *, patience: float = 10.0) -> None:
    """End these processes: politely, and after some patience for certain."""
    _signal(processes, signal.SIGTERM)
    if not _gone(processes, patience):
        kill(processes)


def kill(processes: Sequence[Process]) -> None:
    """End these processes at once, and wait until the last is gone."""
    _signal(processes, signal.SIGKILL)
    if not _gone(processes, 30.0):
        left = ", ".join(f"{one.name} ({one.pid})" for one in processes if alive(one))
        raise ClusterError(f"still there 30 s after SIGKILL: {left}")


def until(condition: Callable[[], bool], patience: float, *, pause: float = 0.05) -> bool:
    """Wait for a condition; tell whether it came true in time."""
    limit = time.monotonic() + patience
    while not condition():
        if time.monotonic() > limit:
            return False
        time.sleep(pause)
    return True


def _signal(processes: Sequence[Process], number: signal.Signals) -> None:
    for one in processes:
        if alive(one):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one.pid, number)


def _gone(processes: Sequence[Process], patience: float) -> bool:
    return until(lambda: not any(alive(one) for one in processes), patience, pause=0.02)


def _reap(pid: int) -> None:
    # The process is a child only of the program that started it.
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _stat(pid: int) -> tuple[str, int]:
    """Return the state and the start of a process; of none, a state that says so."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "X", -1
    # The name stands in brackets and may hold anything, so fields are counted from its end.
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[19])
