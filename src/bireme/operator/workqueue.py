"""Queues the keys that wait for a step: each at most once, now or at a time."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable


class Queue:
    """Hands out keys; one that is being worked on is not handed out twice at the same time.

    A key that is added while it is worked on comes again afterwards. Of several times for one key the
    earliest holds. Times are kept in the loop's own time, which cannot be set back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ready: deque[str] = deque()
        self._waiting: set[str] = set()
        self._busy: set[str] = set()
        self._again: set[str] = set()
        self._due: dict[str, float] = {}
        self._timers: list[tuple[float, str]] = []
        self._alarm: asyncio.TimerHandle | None = None
        self._idle: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, key: str) -> None:
        """Ask for a step as soon as possible."""
        self._due.pop(key, None)
        if key in self._busy:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.append(key)
            while self._idle:
                turn = self._idle.popleft()
                if not turn.done():  # One that was cancelled meanwhile takes no key.
                    turn.set_result(None)
                    break

    def add_at(self, key: str, time: float) -> None:
        """Ask for a step at a time, unless an earlier one is asked for already."""
        delay = time - self._clock()
        if delay <= 0:
            self.add(key)
            return
        due = asyncio.get_running_loop().time() + delay
        known = self._due.get(key)
        if key in self._waiting or (known is not None and known <= due):
            return
        self._due[key] = due
        heapq.heappush(self._timers, (due, key))
        if self._timers[0] == (due, key):  # Otherwise the alarm is set for an earlier one already.
            self._set_alarm()

    async def take(self) -> str:
        """Wait for the next key; its taker calls `done` afterwards."""
        while not self._ready:
            turn = asyncio.get_running_loop().create_future()
            self._idle.append(turn)
            try:
                await turn
            finally:
                if turn in self._idle:
                    self._idle.remove(turn)
        key = self._ready.popleft()
        self._waiting.discard(key)
        self._busy.add(key)
        return key

    def done(self, key: str) -> None:
        self._busy.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None
        if self._timers:
            self._alarm = asyncio.get_running_loop().call_at(self._timers[0][0], self._ring)

    def _ring(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._timers and self._timers[0][0] <= now:
            due, key = heapq.heappop(self._timers)
            if self._due.get(key) == due:
                self.add(key)
        self._set_alarm()
