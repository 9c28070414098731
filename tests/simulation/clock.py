"""What time is it in a simulation, and what happens next."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush


class Clock:
    """Virtual time: what is due happens in order, and nothing takes real time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, delay: float, do: Callable[[], None]) -> None:
        self._count += 1
        heappush(self._due, (self.now + delay, self._count, do))

    def next(self) -> float | None:
        """When the next thing happens."""
        return self._due[0][0] if self._due else None

    def advance(self) -> None:
        """Let the next thing happen."""
        when, _, do = heappop(self._due)
        self.now = when
        do()
