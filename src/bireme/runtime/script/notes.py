"""What does a script note in its run's directory, for others to find."""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import Dict, NamedTuple, Optional, Tuple

_WHERE = "checkpoints.at"
_LONGEST = 65536
_SAVED = "checkpoints.last"
_LAST_WORDS = "BIREME_LAST_WORDS"
_IN_ORDER = ("asked", "trainer", "time", "step", "saved")
_HEAD = re.compile(r"bireme-report((?: (?:asked|trainer|time|step|saved)=[^ ]*)*)(.*)")
_NOTED = re.compile(r"([0-9]{1,9}) ([0-9]{1,18}) ([0-9]{1,12}(?:\.[0-9]+)?)\n")


class Saved(NamedTuple):
    """The last checkpoint that was saved: in which attempt, of which step, and when."""

    attempt: int
    step: int
    time: float


def note_checkpoints(folder: str, where: str) -> None:
    """Writes down where the checkpoints are, if that is not the run's own folder."""
    if where == default_checkpoints(folder):
        return
    partial = os.path.join(folder, f"{_WHERE}.{os.getpid()}")
    with contextlib.suppress(OSError):
        with open(partial, "w", encoding="utf-8") as opened:
            opened.write(where if "://" in where else os.path.abspath(where))
        os.replace(partial, os.path.join(folder, _WHERE))


def checkpoints(folder: str) -> str:
    """Where the checkpoints are."""
    try:
        with open(os.path.join(folder, _WHERE), encoding="utf-8") as opened:
            where = opened.read(_LONGEST)
    except (OSError, ValueError):
        return default_checkpoints(folder)
    return where if where and "\0" not in where else default_checkpoints(folder)


def default_checkpoints(folder: str) -> str:
    return os.path.join(folder, "checkpoints")


def note_saved(folder: str, attempt: int, step: int) -> None:
    """Writes down that a checkpoint is there, so that nobody has to ask a bucket which is the newest."""
    tell_far(saved=step)
    if not folder:
        return
    partial = os.path.join(folder, f"{_SAVED}.{os.getpid()}")
    with contextlib.suppress(OSError):
        with open(partial, "w", encoding="ascii") as opened:
            opened.write(f"{attempt} {step} {time.time()!r}\n")
        os.replace(partial, os.path.join(folder, _SAVED))


def saved(folder: str) -> Optional[Saved]:
    """The checkpoint that was saved last, if one was."""
    try:
        with open(os.path.join(folder, _SAVED), encoding="ascii") as opened:
            told = _NOTED.fullmatch(opened.read(_LONGEST))
    except (OSError, ValueError):
        return None
    return None if told is None else Saved(int(told[1]), int(told[2]), float(told[3]))


def tell_far(**far: int) -> None:
    """Leaves in the pod's last words how far this rank has come: they survive a kill."""
    words = os.environ.get(_LAST_WORDS)
    if not words:
        return
    with contextlib.suppress(OSError):
        head, rest, below = _last_words(words)
        for name, value in far.items():
            head[name] = str(value)
        known = [f"{name}={head[name]}" for name in _IN_ORDER if name in head]
        # In place: it is a mount, which nothing can be renamed onto.
        with open(words, "w", encoding="utf-8", errors="surrogateescape") as opened:
            opened.write(f"bireme-report {' '.join(known)}{rest}\n{below}")


def _last_words(path: str) -> Tuple[Dict[str, str], str, str]:
    """What stands there: the first words of the first line, what follows in it, and what is below.

    A save may end after the error of its script was written down, which must stay.
    """
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as opened:
            first, _, below = opened.read(_LONGEST).partition("\n")
    except FileNotFoundError:
        first = below = ""
    told = _HEAD.fullmatch(first)
    if told is None:
        return {"asked": "1"}, "", ""
    pairs = (one.partition("=") for one in told[1].split())
    return {"asked": "1", **{name: value for name, _, value in pairs}}, told[2], below
