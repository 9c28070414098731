"""Makes a runner look again: a byte through a named pipe."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_PIPE_BUFFER = 65536


class Wake:
    """The runner's end of the pipe; readable (select, `loop.add_reader`) once a wake was sent.

    A wake that is lost costs time, never correctness: the runner looks up what is true, and looks now and
    then unasked. So where a file system has no named pipes this is a pipe that no process writes to.
    """

    def __init__(self, path: Path) -> None:
        try:
            # For writing too: with a writer of our own the pipe does not end when a command closes its end.
            self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            self._other: int | None = None
        except OSError:
            self._fd, self._other = os.pipe()
            os.set_blocking(self._fd, False)

    def fileno(self) -> int:
        return self._fd

    def drain(self) -> bool:
        """Forgets all wakes so far and says whether there were any; to be called before looking."""
        woken = False
        with suppress(BlockingIOError):
            while os.read(self._fd, _PIPE_BUFFER):
                woken = True
        return woken

    def close(self) -> None:
        os.close(self._fd)
        if self._other is not None:
            os.close(self._other)


def make_wake(path: Path) -> None:
    """Makes the pipe, where the file system has such things."""
    with suppress(OSError):
        os.mkfifo(path, 0o600)


def send_wake(path: Path) -> bool:
    """Sends a wake and returns whether a runner listens; never blocks."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # ENXIO: no runner has the pipe open
        return False
    try:
        os.write(fd, b"!")
    except BlockingIOError:
        pass  # the pipe is full of wakes that are not yet seen
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
