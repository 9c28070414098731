"""Replaces a file although the disk is full: its blocks are taken while there is room.

A rank whose checkpoints found no room must be able to say so afterwards, and its report needs room too. Only
modules that Python has loaded before any script are used here (see rank_report).
"""

from __future__ import annotations

import os

ROOM = 16 * 1024  # bytes


def reserve(path: str) -> None:
    """Takes the room that the first `replace` of the file may need; without it that one needs a free disk."""
    try:
        fd = os.open(_reserved(path), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return
    try:
        os.posix_fallocate(fd, 0, ROOM)
    except (AttributeError, OSError):  # not of every system, nor of every file system
        pass
    finally:
        os.close(fd)


def replace(path: str, text: str, shorter: str) -> None:
    """Replaces the file; `shorter` is what it gets where the disk has no room for more than was reserved."""
    fresh = f"{path}.{os.getpid()}"
    if os.path.exists(_reserved(path)):  # it is used once
        os.rename(_reserved(path), fresh)
    try:
        try:
            _overwrite(fresh, text)
        except OSError:
            _overwrite(fresh, shorter)
        os.rename(fresh, path)
    except OSError:
        os.unlink(fresh)
        raise


def _overwrite(path: str, text: str) -> None:
    """Writes over what is there, so that its blocks are used again; the rest is given back if there is room.

    On a full disk it is kept, with spaces in it: room that comes and goes with the ends of ranks would tell
    the runner that it can go on, and then not suffice.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        data = text.encode("ascii")
        disk = os.statvfs(path)
        if disk.f_bavail * disk.f_frsize < 4 * ROOM:
            data = data.ljust(min(ROOM, os.fstat(fd).st_size))
        at = 0
        while at < len(data):
            at += os.pwrite(fd, data[at:], at)
        os.ftruncate(fd, len(data))
    finally:
        os.close(fd)


def _reserved(path: str) -> str:
    return f"{path}.room"
