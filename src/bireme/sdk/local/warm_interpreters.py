"""Lists and ends the interpreters that are kept warm for the next run."""

from __future__ import annotations

from pathlib import Path

from bireme.backends.local.warm.zygote_files import Zygote
from bireme.backends.local.warm.zygote_pool import ZygotePool
from bireme.sdk.views import WarmState, WarmView

_FRAMEWORKS = ("torch", "tensorflow", "jax", "paddle")
"""Named even where another package has brought them along."""


def zygotes(home: Path) -> tuple[WarmView, ...]:
    """Every warm interpreter of this home, with the memory that is its own; none of them is waited for."""
    return tuple(_view(one) for one in ZygotePool(home).every())


def end(home: Path) -> int:
    """Ends all of them and returns how many there were; the next run starts cold."""
    return ZygotePool(home).end()


def _view(one: Zygote) -> WarmView:
    state = WarmState.READY if one.is_ready else WarmState.STARTING
    asked = one.roots if one.is_ready else tuple(name for name in one.preload if "." not in name)
    brought = tuple(name for name in _FRAMEWORKS if name in one.packages and name not in asked)
    return WarmView(
        pid=one.pid,
        memory=one.memory,
        modules=one.preload,
        packages=brought + asked,
        state=WarmState.STOPPED if one.is_stopped else state,
        used=one.used,
    )
