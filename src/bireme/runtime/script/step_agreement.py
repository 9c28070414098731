"""Agrees among the ranks of one machine, without talking, at which step something happens: a shared page.

The rank that first wants something writes a step that no rank can have passed yet. In synchronous training no
rank is more than one step ahead of another, because each step needs all of them; so two steps ahead is safe.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
from typing import Callable, NamedTuple, Optional

from .rank_env import RankEnv

AHEAD = 2
_BOOT = "/proc/sys/kernel/random/boot_id"
_SIZE = mmap.PAGESIZE
_ENTRY = struct.Struct("<qd")
_NOTHING = 0
"""What a fresh page holds; so steps are written one higher."""


class AgreedStep(NamedTuple):
    """A step, and when it was written, by a clock that all processes of the machine share."""

    step: int
    written: float


class AgreementPage:
    """A page in the run directory; each slot holds the step at which something is due."""

    def __init__(self, folder: str, launch: str) -> None:
        os.makedirs(folder, exist_ok=True)
        # A new attempt has a new page: what was due in the old one is not due again.
        path = os.path.join(folder, f".board-{launch}")
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if hasattr(os, "posix_fallocate"):
                # Before it is mapped: writing into a hole of a file on a full disk ends the process (SIGBUS).
                os.posix_fallocate(handle, 0, _SIZE)
            else:
                os.ftruncate(handle, _SIZE)
            self._page = mmap.mmap(handle, _SIZE)
        finally:
            os.close(handle)

    def read(self, slot: int) -> Optional[AgreedStep]:
        step, written = _ENTRY.unpack_from(self._page, slot * _ENTRY.size)
        return None if step == _NOTHING else AgreedStep(step - 1, written)

    def write(self, slot: int, step: int, now: float) -> None:
        _ENTRY.pack_into(self._page, slot * _ENTRY.size, step + 1, now)

    def close(self) -> None:
        self._page.close()


def open_page(env: RankEnv, folder: str, tell: Callable[[str], None]) -> Optional[AgreementPage]:
    """The page of this attempt; None for a rank that is alone, or whose peers are on other machines."""
    if env.world_size == 1 or not env.is_on_one_machine:
        return None
    try:
        # A torchrun of the user's own restarts its ranks within the attempt, and counts that.
        launch = f"{env.attempt}-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
        if not env.folder:
            # A folder of the user's may hold pages of other launches, before a reboot and of other machines.
            # Each boot of each machine counts its processes and its time from zero.
            launch = f"{os.getppid()}-{launch}"
            with contextlib.suppress(OSError), open(_BOOT, encoding="ascii") as file:
                launch = f"{file.read(8)}-{launch}"
        return AgreementPage(folder, launch)
    except OSError as error:
        tell(f"cannot write into {folder}: {error.strerror}; a last checkpoint will not be saved")
        return None
