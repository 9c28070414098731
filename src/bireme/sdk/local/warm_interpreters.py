"""Lists and ends the interpreters that are kept warm for the next run."""

from __future__ import annotations

from pathlib import Path

from bireme.backends.local.warm.zygote_pool import ZygotePool
from bireme.sdk.views import WarmState, WarmView

_FRAMEWORKS = ("torch", "tensorflow", "jax", "paddle")
"""Named even where another package has brought them along."""


def zygotes(home: Path) -> tuple[WarmView, ...]:
    """Every warm interpreter of this home, with the memory that is its own; none of them is waited for."""
    views = []
    for zygote in ZygotePool(home).every():
        state = WarmState.READY if zygote.is_ready else WarmState.STARTING
        asked = zygote.roots if zygote.is_ready else tuple(name for name in zygote.preload if "." not in name)
        brought = tuple(name for name in _FRAMEWORKS if name in zygote.packages and name not in asked)
        views.append(
            WarmView(
                pid=zygote.pid,
                memory=zygote.memory,
                modules=zygote.preload,
                packages=brought + asked,
                state=WarmState.STOPPED if zygote.is_stopped else state,
                used=zygote.used,
            )
        )
    return tuple(views)


def end(home: Path) -> int:
    """Ends all of them and returns how many there were; the next run starts cold."""
    return ZygotePool(home).end()
