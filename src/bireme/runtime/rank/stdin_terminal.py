"""Gives a rank its user's terminal as `sys.stdin`, for as long as the user follows the job.

The terminal is read by the rank itself and only when the script asks for input: what is typed ahead stays for
the shell. A command that follows the job holds a lock in the run directory (see `attendance` in `runs`). Once
no process holds it, reading gives the end of input, or a rank would take lines that are meant for the shell.
"""

from __future__ import annotations

import fcntl
import io
import os
import select
import sys
import time
from typing import Any, Optional

TERMINAL = "BIREME_TERMINAL"
FOLDER = "BIREME_RUN_DIR"
LOCK = "terminal"

_LOOK_EVERY = 0.1  # Seconds between two looks whether the user is still there.
_PATIENCE = 10.0  # Seconds for the command that started the job to take its lock.


def give() -> None:
    """Replaces `sys.stdin`; leaves it alone where there is no terminal."""
    path, folder = os.environ.get(TERMINAL), os.environ.get(FOLDER)
    if not path or not folder or sys.stdin is None:
        return
    try:
        fd = _open(path)
    except OSError:
        return
    try:
        if not os.isatty(fd):
            return
    finally:
        os.close(fd)
    raw = _Typed(path, os.path.join(folder, LOCK))
    stream = io.TextIOWrapper(
        io.BufferedReader(raw), encoding=sys.stdin.encoding, errors=sys.stdin.errors, newline="\n"
    )
    stream.mode = "r"  # type: ignore[misc]
    sys.stdin = sys.__stdin__ = stream  # type: ignore[misc]


def _open(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)


class _Typed(io.RawIOBase):
    """What is typed while a user follows the job."""

    name = "<stdin>"

    def __init__(self, path: str, lock: str) -> None:
        self._path = path
        # A descriptor that the script asked for: it stays open, or its number would mean another.
        self._fd = -1
        self._lock = lock
        self._was_followed = False
        self._end = time.monotonic() + _PATIENCE

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        if self._fd < 0:
            self._fd = _open(self._path)
        return self._fd

    def isatty(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # Any: anything that can be written to
        # Open only while it is read: what waits for the terminal's last user is not to wait for the job.
        try:
            fd = _open(self._path)
            try:
                while True:
                    followed = self._is_followed()
                    if followed is None:
                        return 0
                    if not followed:
                        time.sleep(_LOOK_EVERY)
                    elif select.select([fd], [], [], _LOOK_EVERY)[0]:
                        data = os.read(fd, len(buffer))
                        buffer[: len(data)] = data
                        return len(data)
            finally:
                os.close(fd)
        except OSError:  # the window was closed
            return 0

    def _is_followed(self) -> Optional[bool]:
        """Whether a process in the foreground follows the job; None if there will be none."""
        may_come = not self._was_followed and time.monotonic() <= self._end
        try:
            fd = os.open(self._lock, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False if may_come else None
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False if may_come else None
        except OSError:
            self._was_followed = True
            text = os.read(fd, 32).strip()
        finally:
            os.close(fd)
        if not text.isdigit() or not int(text):
            return False
        # A process that was stopped with Ctrl-Z, or began with `&`, is not in the foreground.
        try:
            with open(f"/proc/{int(text)}/stat", "rb") as file:
                words = file.read().rpartition(b")")[2].split()
            return words[2] == words[5]
        except (OSError, IndexError):
            return True  # where it cannot be known, it is taken to be
