"""Notes that a script leaves in its run's directory, and in its pod's last words, for others to find."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from typing import Dict, NamedTuple, Optional

_WHERE = "checkpoints.at"
_LONGEST = 65536
_SAVED = "checkpoints.last"
_LAST_WORDS = "BIREME_LAST_WORDS"
_NOTED = re.compile(r"([0-9]{1,9}) ([0-9]{1,18}) ([0-9]{1,12}(?:\.[0-9]+)?)\n")
_LAST = ("time=", "trainer=", "lost")
"""What only the last words of all begin with."""
_MOST_STEPS = 10**18
_turn = threading.Lock()  # the loop tells its step, and a thread what was saved


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


class RankProgress:
    """How far this rank has come: each rank knows it of itself, whichever others still live."""

    def __init__(self) -> None:
        self.step = -1
        self.saved = -1

    def note_saved(self, folder: str, attempt: int, step: int) -> None:
        """A checkpoint is there, by all ranks; the one with a folder writes it down for all."""
        self.saved = step
        self.tell()
        note_saved(folder, attempt, step)

    def tell(self) -> None:
        """Leaves it in the pod's last words: they survive a kill."""
        tell_far(**self.told())

    def told(self) -> Dict[str, int]:
        """What is known of it; a script may count its steps by anything."""
        told = {}
        for name, value in (("step", self.step), ("saved", self.saved)):
            with contextlib.suppress(TypeError, ValueError, OverflowError, RuntimeError):
                if 0 <= int(value) < _MOST_STEPS:
                    told[name] = int(value)
        return told


def note_saved(folder: str, attempt: int, step: int) -> None:
    """Writes down that a checkpoint is there, so that no process has to ask a bucket which is the newest."""
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
    if not _turn.acquire(timeout=1.0):
        return  # a signal came while this very thread was here, and waits for the one that saves
    try:
        with contextlib.suppress(OSError):
            _tell_far(words, far)
    finally:
        _turn.release()


def _tell_far(words: str, far: Dict[str, int]) -> None:
    known = {"asked": "1"}
    if os.path.exists(words):
        with open(words, encoding="utf-8", errors="replace") as opened:
            head, *told = opened.readline(_LONGEST).split() or [""]
        if head == "bireme-report":
            if any(word.startswith(_LAST) for word in told):
                return  # what ended the script, which is written again when its interpreter exits
            known.update(word.partition("=")[::2] for word in told)
    known.update((name, str(value)) for name, value in far.items())
    line = " ".join(f"{name}={known[name]}" for name in ("asked", "step", "saved") if name in known)
    # In place: it is a mount, which nothing can be renamed onto.
    with open(words, "w", encoding="utf-8") as opened:
        opened.write(f"bireme-report {line}\n")
