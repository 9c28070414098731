"""Locks that end with the process that holds them, however it ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from bireme import errors
from bireme.runs.storage import files

WAIT_LIMIT = 10.0
"""Seconds to wait for another command of ours, which needs milliseconds."""

_PAUSE = 0.002


class FileLock:
    """A held lock: it is open until `close`, or until every process that shares it is gone.

    It belongs to the open file, not to the process. `exec` closes it: a program that we start does not
    have it, unless its descriptor is passed on (`pass_fds=[lock.fd]`, and `Lock(fd)` there). A child that
    is forked without exec shares it: the lock is held until both have closed it. So a forked runner takes
    over the lock of its parent without a gap, if the parent closes its share; any other forked child must
    call `close` first thing, or the run seems to have a runner for as long as that child lives.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def close(self) -> None:
        """Gives up this process's share; never unlocks what a parent or child still holds."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> FileLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def hold(path: Path) -> FileLock | None:
    """Takes the lock, or returns None at once if another process has it.

    A process that only looks shares the lock for a moment, which is long on a busy machine: that is waited
    for.
    """
    for _ in range(int(WAIT_LIMIT / _PAUSE)):
        if (fd := _taken(path, fcntl.LOCK_EX)) is not None:
            return FileLock(fd)
        if is_held(path):
            return None
        time.sleep(_PAUSE)
    return None


def is_held(path: Path) -> bool:
    """Says whether a process has the lock, this one included."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise errors.NoAccess(f"cannot look at {path}: {error.strerror}") from error
    try:
        # Shared, so that several processes that look at once do not take each other for a holder.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


@contextmanager
def wait(path: Path, what: str) -> Iterator[None]:
    """Holds the lock of a short piece of work, waiting for the processes that are at it now."""
    waited, pause = 0.0, 0.0005
    while (fd := _taken(path, fcntl.LOCK_EX)) is None:
        if waited > WAIT_LIMIT:
            raise errors.Unreachable(
                f"another command has been {what} for {WAIT_LIMIT:.0f} s", hint=f"see which: `fuser {path}`"
            )
        time.sleep(pause)
        waited += pause
        pause = min(pause * 2, 0.02)
    try:
        yield
    finally:
        os.close(fd)


def _taken(path: Path, how: int) -> int | None:
    with files.explained(path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, files.PRIVATE)
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
        # The file may have been removed since it was opened; a lock without a name keeps no process out.
        if os.path.samestat(os.fstat(fd), os.stat(path)):
            return fd
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return None
