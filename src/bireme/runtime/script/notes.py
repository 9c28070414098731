"""What does a script note in its run's directory, for others to find."""

from __future__ import annotations

import contextlib
import os

_WHERE = "checkpoints.at"
_LONGEST = 65536


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
