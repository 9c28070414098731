"""What time is it for simulated operators: an event loop that jumps to whatever is due next."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable

START = 1_000_000.0
"""What every clock shows when a simulation begins."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs callbacks in the order of their times, and never waits for a real one."""

    def __init__(self) -> None:
        self._now = START
        super().__init__(_Jump(self._skip))

    def time(self) -> float:
        return self._now

    def _skip(self, seconds: float) -> None:
        self._now += seconds


class _Jump(selectors.SelectSelector):
    """Has nothing to wait for: where a loop would sleep, its time goes on."""

    def __init__(self, skip: Callable[[float], None]) -> None:
        super().__init__()
        self._skip = skip

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everybody waits, and nothing will ever happen again")
        if timeout > 0:
            self._skip(timeout)
        return []
