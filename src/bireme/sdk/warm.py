"""Which interpreters are kept warm for the next run, and how are they ended."""

from __future__ import annotations

from pathlib import Path

from bireme.backends.local.zygotes import Stable
from bireme.sdk.views import WarmView


def zygotes(home: Path) -> tuple[WarmView, ...]:
    """Every warm interpreter of this home, with the memory that is its own."""
    return tuple(
        WarmView(pid=one.pid, memory=one.memory, modules=tuple(one.preload)) for one in Stable(home).living()
    )


def end(home: Path) -> int:
    """Ends all of them and returns how many there were; the next run starts cold."""
    return Stable(home).end()
