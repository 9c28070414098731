"""How do plain functions ask async ones: through one event loop in a thread of its own.

A notebook has a loop running already, so `asyncio.run` would not do; and a follower goes on reading while
its user's program does something else. The thread ends with the program.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, TypeVar

T = TypeVar("T")

_LOOK_EVERY = 0.5
"""Seconds after which a waiting caller may notice a signal."""


class Bridge:
    """An event loop that runs beside the program."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self._run, name="bireme-cluster", daemon=True).start()

    def ask(self, question: Coroutine[Any, Any, T]) -> T:  # Any: what a coroutine yields is asyncio's affair
        """Waits for an answer; an interrupt of the program cancels the question."""
        future = self.send(question)
        try:
            while True:
                try:
                    return future.result(_LOOK_EVERY)
                except FutureTimeout:
                    if future.done():
                        raise
        except BaseException:
            future.cancel()
            raise

    def send(self, task: Coroutine[Any, Any, T]) -> Future[T]:
        """Starts something that goes on by itself until its future is cancelled."""
        return asyncio.run_coroutine_threadsafe(task, self.loop)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()


_lock = threading.Lock()
_bridges: list[Bridge] = []


def bridge() -> Bridge:
    """The one of this program, started when it is first needed."""
    with _lock:
        if not _bridges:
            _bridges.append(Bridge())
        return _bridges[0]
