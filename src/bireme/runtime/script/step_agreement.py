"""How do the ranks of one machine agree, without talking, at which step something happens: a shared page.

Whoever first wants something writes a step that nobody can have passed yet. In synchronous training no rank
is more than one step ahead of another, because each step needs everybody; so two steps ahead is safe.
"""

from __future__ import annotations

import mmap
import os
import struct
from typing import Callable, NamedTuple, Optional

from .rank_env import RankEnv

AHEAD = 2
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
        self._page = _mapped(os.path.join(folder, f".board-{launch}"))

    def read(self, slot: int) -> Optional[AgreedStep]:
        step, written = _ENTRY.unpack_from(self._page, slot * _ENTRY.size)
        return None if step == _NOTHING else AgreedStep(step - 1, written)

    def write(self, slot: int, step: int, now: float) -> None:
        _ENTRY.pack_into(self._page, slot * _ENTRY.size, step + 1, now)

    def close(self) -> None:
        self._page.close()


def open_page(env: RankEnv, folder: str, tell: Callable[[str], None]) -> Optional[AgreementPage]:
    """The page of this attempt; None for a rank that is alone, or whose peers are elsewhere."""
    if env.world_size == 1 or not env.is_on_one_machine:
        return None
    try:
        return AgreementPage(folder, _launch(env))
    except OSError as error:
        tell(f"cannot write into {folder}: {error.strerror}; a last checkpoint will not be saved")
        return None


def _launch(env: RankEnv) -> str:
    """What the ranks of one attempt have in common, and no others.

    A torchrun of the user's own starts its ranks again within the attempt, and counts that.
    """
    attempt = f"{env.attempt}-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    return attempt if env.folder else f"{_boot()}{os.getppid()}-{attempt}"


def _boot() -> str:
    """Tells apart machines, and their lives: each counts its processes and its time anew."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as opened:
            return opened.read(8) + "-"
    except OSError:
        return ""


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
