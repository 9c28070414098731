"""How is one program started, waited for and ended, so that nothing of it lingers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import stat
import subprocess
from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct

from bireme.runtime import linux

MARK = "BIREME_RUN"
"""The variable that every process of a run carries: `<run>/<attempt>`."""

_OURS, _OF_THE_USER = "BIREME_", ("BIREME_HOME", "BIREME_WARM_MEMORY")
_POLL = 0.05


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


class Process(Protocol):
    """A started program, whoever started it."""

    @property
    def pid(self) -> int: ...

    async def wait(self) -> int:
        """Wait for its end: the exit code, or 128 and the signal's number."""

    def signal(self, number: int) -> None:
        """Send a signal to the whole process group; harmless once it is gone."""


class NotStarted(Exception):
    """The program could not be started; the text says why."""


class Spawned:
    """A child of this process."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen

    @property
    def pid(self) -> int:
        return self._popen.pid

    async def wait(self) -> int:
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
    unmounted = _Unmounted()
    try:
        popen = subprocess.Popen(
            program.argv,
            cwd=program.folder,
            env=program.environment,
            stdin=subprocess.DEVNULL if output.stdin is None else output.stdin,
            stdout=output.stdout,
            stderr=output.stderr,
            start_new_session=True,
            preexec_fn=_preparation(program, unmounted),
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


def kill(pids: set[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


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


def _preparation(program: Program, unmounted: _Unmounted) -> Callable[[], None]:
    parent = os.getpid()

    def prepare() -> None:
        linux.die_with_parent(parent)
        linux.join_cgroups(program.cgroups)
        # A program that lacks its data must not run: it would train on nothing, or write to the wrong disk.
        failed = linux.mount_privately(program.mounts)
        if failed:
            unmounted.tell(failed)
            raise OSError("not mounted")

    return prepare


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
