"""How do the ranks of one machine agree, without talking, at which step something happens: a shared page.

Whoever first wants something writes a step that nobody can have passed yet. In synchronous training no rank
is more than one step ahead of another, because each step needs everybody; so two steps ahead is safe.
"""

from __future__ import annotations

import mmap
import os
import struct
from typing import NamedTuple, Optional

AHEAD = 2
_SIZE = mmap.PAGESIZE
_ENTRY = struct.Struct("<qd")
_NOTHING = 0
"""What a fresh page holds; so steps are written one higher."""


class Entry(NamedTuple):
    """A step, and when it was written, by a clock that all processes of the machine share."""

    step: int
    written: float


class Board:
    """A page in the run directory; each slot holds the step at which something is due."""

    def __init__(self, folder: str, launch: str) -> None:
        os.makedirs(folder, exist_ok=True)
        # A new attempt has a new page: what was due in the old one is not due again.
        self._page = _mapped(os.path.join(folder, f".board-{launch}"))

    def read(self, slot: int) -> Optional[Entry]:
        step, written = _ENTRY.unpack_from(self._page, slot * _ENTRY.size)
        return None if step == _NOTHING else Entry(step - 1, written)

    def write(self, slot: int, step: int, now: float) -> None:
        _ENTRY.pack_into(self._page, slot * _ENTRY.size, step + 1, now)

    def close(self) -> None:
        self._page.close()


def _mapped(path: str) -> mmap.mmap:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if hasattr(os, "posix_fallocate"):
            # A hole in a file would end the process by a signal, should the disk be full when it is filled.
            os.posix_fallocate(handle, 0, _SIZE)
        else:
            os.ftruncate(handle, _SIZE)
        return mmap.mmap(handle, _SIZE)
    finally:
        os.close(handle)
