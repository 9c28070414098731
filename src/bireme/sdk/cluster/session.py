"""Asks a cluster from plain functions, through one connection and one event loop in a thread of its own.

A notebook has a loop running already, so `asyncio.run` would not do; and a follower continues to read while
its user's program does something else. The thread ends with the program.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from random import SystemRandom
from typing import Any, TypeVar

from bireme import errors
from bireme.backends.kubernetes.client import access
from bireme.backends.kubernetes.client.access import Access
from bireme.backends.kubernetes.client.api import Api, ApiError
from bireme.backends.kubernetes.client.error_hints import explained
from bireme.sdk.backends import Where

T = TypeVar("T")

_LOOK_EVERY = 0.5
"""Seconds after which a waiting caller may notice a signal."""


class Bridge:
    """An event loop that runs beside the program."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()

        def run() -> None:
            asyncio.set_event_loop(self.loop)
            self.loop.run_forever()

        threading.Thread(target=run, name="bireme-cluster", daemon=True).start()

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
        """Starts something that continues by itself until its future is cancelled."""
        return asyncio.run_coroutine_threadsafe(task, self.loop)


class Session:
    """Asks one API server; what it refuses becomes an error that says whose turn it is."""

    def __init__(self, found: Access) -> None:
        self.access = found
        self._bridge = bridge()
        self._opening = asyncio.Lock()
        self._api: Api | None = None

    def ask(self, question: Callable[[Api], Awaitable[T]], patience: float | None = None) -> T:
        """Waits for the answer, at most for so many seconds."""

        async def limited() -> T:
            async with asyncio.timeout(patience):
                return await question(await self._opened())

        try:
            return self._bridge.ask(limited())
        except ApiError as error:
            raise explained(error) from error
        except TimeoutError as error:
            raise errors.Unreachable(
                f"the API server {self.access.server} (context {self.access.context}) has not answered "
                f"within {patience or 0:g} s",
                hint="is the cluster up, and this machine connected to it?",
            ) from error

    def send(self, task: Callable[[Api], Coroutine[Any, Any, T]]) -> Future[T]:
        """Starts something that continues by itself until it is cancelled."""

        async def started() -> T:
            return await task(await self._opened())

        return self._bridge.send(started())

    async def _opened(self) -> Api:
        async with self._opening:
            if self._api is None:
                self._api = await Api(self.access).__aenter__()
                weakref.finalize(self, _close, self._bridge, self._api)
        return self._api


def opened(where: Where, environ: Mapping[str, str]) -> Session:
    """The session with the cluster that is meant, found as kubectl finds it."""
    if where.kubeconfig:
        files = where.kubeconfig.split(os.pathsep)
        if not any(os.path.exists(os.path.expanduser(file)) for file in files):
            raise errors.BadInput("there is no such kubeconfig", where=where.kubeconfig)
        environ = {**environ, "KUBECONFIG": where.kubeconfig}
    return Session(access.find(time, SystemRandom(), context=where.context or None, environ=environ))


def _close(bridge: Bridge, api: Api) -> None:
    """Ends the connection with the program, which must not wait for it."""
    try:
        bridge.send(api.__aexit__(None, None, None)).result(1.0)
    except Exception:
        return


_lock = threading.Lock()
_bridges: list[Bridge] = []


def bridge() -> Bridge:
    """The one of this program, started when it is first needed."""
    with _lock:
        if not _bridges:
            _bridges.append(Bridge())
        return _bridges[0]
