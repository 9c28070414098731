"""What does a script note in its run's directory, for others to find."""

from __future__ import annotations

import contextlib
import os

_WHERE = "checkpoints.at"


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
            return opened.read()
    except OSError:
        return default_checkpoints(folder)


def default_checkpoints(folder: str) -> str:
    return os.path.join(folder, "checkpoints")
