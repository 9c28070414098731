"""Starts programs, waits for them and ends them, so that nothing of them lingers."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import time
from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from bireme.backends.local.cgroups import Cgroups, OutOfMemory
from bireme.model.pods import Resources
from bireme.runtime import linux

MARK = "BIREME_RUN"
"""The variable that every process of a run carries: `<run>/<attempt>`."""

_OURS, _OF_THE_USER = "BIREME_", ("BIREME_HOME", "BIREME_WARM_MEMORY")
_POLL = 0.05
_MOST_SWEEPS, _SWEEP_EVERY = 2000, 0.005

EVICTED = -1
"""The exit code of a process that was lost with the zygote that had forked it."""


class Program(Struct, frozen=True):
    """One program, complete: what is executed, with what, where and within which limits."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    folder: str
    cgroups: tuple[str, ...] = ()
    """Files into which the process writes itself before it becomes the program."""
    mounts: tuple[tuple[str, str, bool], ...] = ()
    """Source, target and whether it is read-only."""


class Input(Struct, frozen=True):
    """What the user gave to the command that started the job, by `|` or `<`."""

    fd: int
    start: int | None = None
    """Where a plain file is read from; None for what cannot be read twice."""

    def rewound(self) -> int:
        """The descriptor, for a program that reads from the beginning."""
        if self.start is not None:
            os.lseek(self.fd, self.start, os.SEEK_SET)
        return self.fd


def given_input(fd: int) -> Input:
    """Keep a descriptor, whatever becomes of its number."""
    kept = os.dup(fd)
    is_file = stat.S_ISREG(os.fstat(kept).st_mode)
    return Input(kept, os.lseek(kept, 0, os.SEEK_CUR) if is_file else None)


class Output(Struct, frozen=True):
    """The write ends that a program gets as its standard output and error, and where its input comes from."""

    stdout: int
    stderr: int
    stdin: int | None = None


class ProgramProcess(Protocol):
    """A started program, however it was started."""

    is_warm: bool
    """Whether it was forked from a process that had its modules imported."""

    @property
    def pid(self) -> int: ...

    async def wait(self) -> int:
        """Wait for its end: the exit code, or 128 and the signal's number."""

    def signal(self, number: int) -> None:
        """Send a signal to the whole process group; harmless once it is gone."""


class ContainerGroup(Protocol):
    """What holds all processes of one container, however they were started, and limits them."""

    @property
    def procs(self) -> list[str]:
        """The files into which a process writes `0` to join."""

    def out_of_memory(self) -> OutOfMemory | None:
        """Whether a process of it was killed for lack of memory."""

    def kill(self) -> bool:
        """Kill every process of the group at once; True when none is left."""

    def kill_all(self) -> None:
        """Kill until none is left."""

    def remove(self) -> None: ...


class Launcher(Protocol):
    """Starts programs: as a new process, or as a fork of a warm one."""

    async def launch(self, program: Program, output: Output, label: str) -> ProgramProcess:
        """Start a program, known by a label in reports; raises NotStarted."""


class Processes(Launcher, Protocol):
    """The processes of this machine, as far as a runner has to do with them."""

    def start_time(self, pid: int) -> int:
        """When a process started, in clock ticks since boot; with the pid it names a process for ever."""

    def group(self, path: tuple[str, ...], limits: Resources) -> ContainerGroup | None:
        """Make the group of one container; None where this machine has no such thing."""

    def end_rest(self, process: ProgramProcess, group: ContainerGroup | None) -> None:
        """Kill what the first process of a container left behind: a container ends with that one."""

    def end_run(self, run: str) -> None:
        """Kill every process that carries the mark of a run, until none is left."""


class NotStarted(Exception):
    """The program could not be started; the text says why."""


class LocalProcesses:
    """The real processes."""

    def __init__(self, launcher: Launcher, cgroups: Cgroups | None) -> None:
        self._cgroups = cgroups
        self.launch = launcher.launch

    def start_time(self, pid: int) -> int:
        return start_time(pid)

    def group(self, path: tuple[str, ...], limits: Resources) -> ContainerGroup | None:
        group = self._cgroups.group(*path) if self._cgroups else None
        if group is not None:
            group.limit(limits)
        return group

    def end_rest(self, process: ProgramProcess, group: ContainerGroup | None) -> None:
        if group is not None:
            group.kill_all()
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)

    def end_run(self, run: str) -> None:
        for group in self._cgroups.groups(run) if self._cgroups else []:
            group.kill_all()
            group.remove()
        # What left its group, or never was in one, still has the mark in its environment.
        for _ in range(_MOST_SWEEPS):
            if not (alive := marked(run)):
                return
            for pid in alive:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_SWEEP_EVERY)


class Spawned:
    """A child of this process."""

    is_warm = False

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen

    @property
    def pid(self) -> int:
        return self._popen.pid

    async def wait(self) -> int:
        import asyncio  # here: a command that only submits needs none of it

        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                await _readable(os.pidfd_open(self.pid))
        while self._popen.poll() is None:
            await asyncio.sleep(_POLL)
        return exit_code(self._popen.returncode)

    def signal(self, number: int) -> None:
        if self._popen.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def spawn(program: Program, output: Output) -> Spawned:
    """Start a program as a child that dies with this process."""
    unmounted, parent = _Unmounted(), os.getpid()

    def prepare() -> None:
        linux.die_with_parent(parent)
        linux.join_cgroups(program.cgroups)
        # A program that lacks its data must not run: it would train on nothing, or write to the wrong disk.
        failed = linux.mount_privately(program.mounts)
        if failed:
            unmounted.tell(failed)
            raise OSError("not mounted")

    try:
        popen = subprocess.Popen(
            program.argv,
            cwd=program.folder,
            env=program.environment,
            stdin=subprocess.DEVNULL if output.stdin is None else output.stdin,
            stdout=output.stdout,
            stderr=output.stderr,
            start_new_session=True,
            preexec_fn=prepare,
        )
    except FileNotFoundError as error:
        missing = error.filename or program.argv[0]
        what = "no such folder" if missing == program.folder else "no such program"
        raise NotStarted(f"{what}: {missing}") from error
    except subprocess.SubprocessError as error:
        targets = unmounted.read()
        what = f"cannot mount {targets}" if targets else f"{program.argv[0]}: {error}"
        raise NotStarted(what) from error
    except (OSError, ValueError) as error:
        raise NotStarted(f"{program.argv[0]}: {error}") from error
    finally:
        unmounted.close()
    return Spawned(popen)


def exit_code(returncode: int) -> int:
    """An exit code as a kubelet reports it: a signal is 128 and its number."""
    return 128 - returncode if returncode < 0 else returncode


def without_marks(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for a job that a rank starts: without what Bireme put into that of the rank."""
    if MARK not in environ:
        return dict(environ)  # of no rank: what begins like ours is what the user has set
    return {
        name: value for name, value in environ.items() if not name.startswith(_OURS) or name in _OF_THE_USER
    }


def marked(run: str) -> set[int]:
    """Processes that carry the mark of a run, wherever they have wandered to; Linux only."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        pids = {int(name) for name in os.listdir("/proc") if name.isdecimal()} - {os.getpid()}
        found = {pid for pid in pids if (linux.variable_of(pid, MARK) or "").startswith(f"{run}/")}
    return {pid for pid in found if (entry := linux.process(pid)) is not None and not entry.zombie}


def start_time(pid: int) -> int:
    """When a process started, in clock ticks since boot; with the pid it names a process for ever."""
    return linux.start_time(pid) or 0


class _Unmounted:
    """How a child tells which mounts failed before it became the program: an exception of it has no text."""

    def __init__(self) -> None:
        self._ours, self._theirs = os.pipe()
        os.set_blocking(self._ours, False)

    def tell(self, targets: list[str]) -> None:
        os.write(self._theirs, os.fsencode(", ".join(targets))[:4096])

    def read(self) -> str:
        with contextlib.suppress(BlockingIOError):
            return os.fsdecode(os.read(self._ours, 4096))
        return ""

    def close(self) -> None:
        os.close(self._ours)
        os.close(self._theirs)


async def _readable(descriptor: int) -> None:
    import asyncio

    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
