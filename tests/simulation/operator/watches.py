"""What does a watch tell, and when: late, twice, for a while, or that it was away for too long."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable
from random import Random

import msgspec

from bireme.backends.kubernetes.client.paths import Target
from tests.simulation.operator.profiles import Profile
from tests.simulation.operator.server import Server, Told, matches

LONGEST_STALL = 45.0


class Watches:
    """All watches that operators have open."""

    def __init__(self, server: Server, rng: Random, profile: Profile) -> None:
        self._server, self._rng, self._profile = server, rng, profile
        self._waiting: dict[str, list[asyncio.Event]] = {}
        self.calm = False
        self._stalled: dict[str, float] = {}
        server.listeners.append(self._tell)

    def open(
        self, about: Target, version: int, query: dict[str, str], is_lost: Callable[[], bool]
    ) -> AsyncIterator[bytes]:
        limit = float(query["timeoutSeconds"])
        drops = 0.0 if self.calm else self._profile.watch
        lasts = min(limit, self._rng.expovariate(1 / drops)) if drops else limit
        broken = lasts < limit and self._rng.random() < 0.5
        return self._stream(about, version, query.get("labelSelector", ""), (lasts, broken), is_lost)

    def stall(self, plural: str, seconds: float) -> None:
        """Let nobody hear of a resource for a while."""
        self._stalled[plural] = asyncio.get_running_loop().time() + seconds

    async def _stream(
        self,
        about: Target,
        version: int,
        selector: str,
        fate: tuple[float, bool],
        is_lost: Callable[[], bool],
    ) -> AsyncIterator[bytes]:
        if version < self._server.compacted:
            yield _gone()
            return
        lasts, broken = fate
        ends = asyncio.get_running_loop().time() + lasts
        history = self._server.history[about.resource]
        position = bisect_right(history, version, key=lambda one: one.version)
        while await self._news(about.resource, history, position, ends):
            known = len(history)
            await asyncio.sleep(self._lag(about.resource))
            if is_lost():
                raise ConnectionResetError("the watch broke")
            fresh = [one for one in history[position:known] if _is_for(one, about, selector)]
            position = known
            if fresh:
                yield b"".join(one.line for one in fresh)
                if self._happens(self._profile.repeat):
                    yield fresh[-1].line
            if self._rng.random() < 0.05:
                yield _bookmark(history[position - 1].version)
        if broken:
            raise ConnectionResetError("the watch broke")

    async def _news(self, plural: str, history: list[Told], position: int, ends: float) -> bool:
        """Wait for something to tell; False when the watch is over before."""
        loop = asyncio.get_running_loop()
        if loop.time() >= ends:
            return False
        if len(history) > position:
            return True
        event = asyncio.Event()
        waiting = self._waiting.setdefault(plural, [])
        waiting.append(event)
        alarm = loop.call_at(ends, event.set)
        try:
            await event.wait()
        finally:
            alarm.cancel()
            if event in waiting:
                waiting.remove(event)
        return len(history) > position

    def _tell(self, told: Told) -> None:
        for event in self._waiting.pop(told.plural, []):
            event.set()

    def _lag(self, plural: str) -> float:
        if plural in self._stalled:
            return max(0.0, self._stalled.pop(plural) - asyncio.get_running_loop().time())
        if self._happens(self._profile.stall):
            return self._rng.random() * LONGEST_STALL
        return self._rng.random() * (0.01 if self.calm else self._profile.lag)

    def _happens(self, chance: float) -> bool:
        return not self.calm and chance > 0.0 and self._rng.random() < chance


def _is_for(told: Told, about: Target, selector: str) -> bool:
    return about.namespace in ("", told.key[0]) and matches(told.tree, selector)


def _bookmark(version: int) -> bytes:
    return _line("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def _gone() -> bytes:
    return _line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})


def _line(type: str, about: dict[str, object]) -> bytes:
    return msgspec.json.encode({"type": type, "object": about}) + b"\n"
