"""Keeps some room of the disk in hand while a run is active, so that it can be stopped when the disk is full.

A run whose own output filled the disk could otherwise be ended by nothing but `kill`: an order has to be
written down, and what follows from it as well.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_NAME = "reserve"
_SIZE = 60 << 10
"""Bytes: an order, and what its runner records until the ranks have ended.

Less than what `files.has_room` asks for, so that no log takes it.
"""


def keep(folder: Path) -> None:
    """Takes the room, as far as there is some."""
    with contextlib.suppress(OSError, AttributeError):  # macOS has no posix_fallocate
        fd = os.open(folder / _NAME, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(fd).st_blocks * 512 < _SIZE:
                os.posix_fallocate(fd, 0, _SIZE)
        finally:
            os.close(fd)


def release(folder: Path) -> bool:
    """Gives the room back; returns whether there was any."""
    try:
        os.unlink(folder / _NAME)
    except OSError:
        return False
    return True
