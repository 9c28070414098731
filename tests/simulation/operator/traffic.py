"""Is anybody busy for nothing: requests and steps are counted minute by minute, beside what happened."""

from __future__ import annotations

import asyncio

from tests.simulation.operator.history import Story
from tests.simulation.operator.network import Network
from tests.simulation.operator.operators import Operators
from tests.simulation.operator.server import Server, Told

MINUTE = 60.0
FREE = 20
"""Requests, and steps, of a minute in which nothing happens."""
EACH = 12
"""The same for each thing that happens."""


class Traffic:
    def __init__(self, server: Server, network: Network, operators: Operators, story: Story) -> None:
        self._network, self._operators, self._story = network, operators, story
        self._changes = 0
        self._before = (0, 0, 0.0, 0)
        server.listeners.append(self._hear)

    def begin(self) -> None:
        asyncio.get_running_loop().call_later(MINUTE, self._count)

    def _hear(self, told: Told) -> None:
        self._changes += told.plural not in ("leases", "services")

    def _count(self) -> None:
        now = (
            self._network.asked,
            self._changes + self._network.mishaps,
            self._operators.steps,
            len(self._operators.all),
        )
        asked, happened, steps, begun = (new - old for new, old in zip(now, self._before, strict=True))
        self._before = now
        most = FREE + EACH * (happened + 20 * begun)
        if asked > most:
            self._story.breaks(f"{asked} requests in a minute in which {happened} things happened")
        if steps > most:
            self._story.breaks(f"{steps} steps in a minute in which {happened} things happened")
        asyncio.get_running_loop().call_later(MINUTE, self._count)
