"""Writes what a rank reports: a file that is replaced although the disk is full, and a termination log.

A rank whose checkpoints found no room must be able to say so afterwards, and its report needs room too: the
blocks of the file are taken while there is room.

A container's termination log stays with the pod's status: an error goes there as a person reads it, below a
line with its exact time and place. It holds little, so the beginning of a long traceback is left out. How far
the script has come may stand there before (see script.notes), and is kept.

Only modules that Python has loaded before any script are used here (see rank_report).
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as in typing, which is not loaded here: a script may have a module of that name
if TYPE_CHECKING:
    from typing import Any, Dict

ROOM = 16 * 1024  # bytes

_MOST_WORDS = 3500  # bytes; a kubelet keeps the last 4096 of a termination log
_LONGEST_PLACE = 200
_LONGEST_HEAD = 1000
_LONGEST_TYPE = 200
_OF_TYPES = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.<>")


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


def write_last_words(path: str, report: Dict[str, Any]) -> None:
    """Leaves what a person, or `bireme show`, should find in the pod's status; nothing if all is well."""
    asked, lost, trainer, error = report["read_rank"], report["lost"], report["trainer"], report["error"]
    if error is None and asked and not lost:
        return
    head = f"bireme-report asked={1 if asked else 0}"
    if error is None:
        head += f" trainer={trainer}" if trainer else ""
        text = f"{head}{_progress(path)}" + (f" lost\n{lost}\n" if lost else "\n")
    else:
        head += f" time={error['time']!r}{_progress(path)}"
        if error["status"] is not None:
            head += f" status={error['status']}"
        type_name = "".join(char if char in _OF_TYPES else "_" for char in error["type"][:_LONGEST_TYPE])
        place = " ".join(str(error["place"]).split())[-_LONGEST_PLACE:]
        text = f"{head} type={type_name or '_'} place={place}\n"
        told = error["traceback"] or f"{error['type']}: {error['message']}\n"
        data = told.encode("utf-8", "replace")
        if len(data) > _MOST_WORDS:  # the end says most; it begins with a whole line
            told = data[-_MOST_WORDS:].decode("utf-8", "replace").partition("\n")[2]
        text += told
    # In place: it is a mount, which nothing can be renamed onto.
    with open(path, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)


def _overwrite(path: str, text: str) -> None:
    """Writes over what is there, so that its blocks are used again; the rest is given back if there is room.

    On a full disk it is kept, with spaces in it: room that comes and goes with the ends of ranks would tell
    the runner that it can continue, and then not suffice.
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


def _progress(words: str) -> str:
    """How far the script had come, as its run knows, or as it stands in its last words already."""
    try:
        with open(words, encoding="utf-8", errors="replace") as file:
            first = file.readline(_LONGEST_HEAD)
    except OSError:
        first = ""
    told: Dict[str, str] = {}
    if first.startswith("bireme-report "):
        for word in first.split():
            if word.startswith(("step=", "saved=")):
                name, _, told[name] = word.partition("=")
    run = getattr(sys.modules.get("bireme.runtime.script.startup"), "_open", None)
    if run is not None:
        told.update((name, str(value)) for name, value in run.progress.told().items())
    return "".join(f" {name}={told[name]}" for name in ("step", "saved") if name in told)
