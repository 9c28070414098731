"""What happened in a simulated cluster: its last lines, a digest of all, and the first broken rule."""

from __future__ import annotations

import asyncio
from collections import deque
from hashlib import sha256

from tests.simulation.operator.loop import START

LINES = 250


class Story:
    """Everybody tells it what they do; the same seed tells the same."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._digest = sha256()
        self.lines: deque[str] = deque(maxlen=LINES)
        self.count = 0
        self.violation = ""
        self.details = ""
        self.broken = asyncio.Event()

    @property
    def now(self) -> float:
        return self._loop.time()

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def tell(self, what: str) -> None:
        line = f"{self.now - START:9.3f} {what}"
        self.count += 1
        self._digest.update(line.encode())
        self.lines.append(line)

    def breaks(self, rule: str, details: str = "") -> None:
        """A rule was broken: the first one is the story, and ends it."""
        if not self.violation:
            self.violation, self.details = rule, details
            self.tell(f"BROKEN: {rule}")
            self.broken.set()
