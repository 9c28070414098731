"""Where do simulated pods run: nodes that may stop answering, and what their cluster does about it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from tests.simulation.operator.history import Story
from tests.simulation.operator.server import NODES, Server


class Nodes:
    """The nodes of a cluster; what becomes of their pods is told to whoever runs them."""

    def __init__(self, server: Server, rng: Random, story: Story, count: int) -> None:
        self._server, self._rng, self._story = server, rng, story
        self.returned: Callable[[str], None] = lambda node: None
        self.expelled: Callable[[str], None] = lambda node: None
        self.removed: Callable[[str], None] = lambda node: None
        self._silent: set[str] = set()
        self._count = 0
        self.lost: dict[str, float] = {}
        """Until when a node was known to be lost."""
        self.calm = False
        for _ in range(count):
            self.add()

    def add(self) -> None:
        self._count += 1
        name = f"node-{self._count}"
        self._server.create(NODES, "", {"metadata": {"name": name}, "status": _status("True")})

    def all(self) -> list[str]:
        return [name for _, name in self._server.objects[NODES]]

    def exists(self, node: str) -> bool:
        return ("", node) in self._server.objects[NODES]

    def answers(self, node: str) -> bool:
        return node not in self._silent and self.exists(node)

    def ready(self) -> list[str]:
        """The nodes on which a scheduler places pods."""
        return [name for name in self.all() if self.is_ready(name)]

    def is_ready(self, node: str) -> bool:
        status = self._server.get(NODES, ("", node))["status"]
        return bool(status["conditions"][0]["status"] == "True")

    def silence(self, node: str) -> None:
        """A node does not answer any more: the cluster notices, and gives its pods up after a while."""
        if node in self._silent:
            return
        self._silent.add(node)
        self._story.tell(f"    {node} falls silent")
        self._after(2.0 + 20.0 * self._rng.random(), lambda: self._notice(node))

    def mend(self, node: str) -> None:
        if node not in self._silent or not self.exists(node):
            return
        self._silent.discard(node)
        self._story.tell(f"    {node} answers again")
        self._mark(node, "True")
        self.returned(node)

    def remove(self, node: str) -> None:
        """A machine is taken out of the cluster; another one takes its place."""
        self._story.tell(f"    {node} is removed")
        self._server.delete(NODES, ("", node))
        self.lost[node] = float("inf")
        self.add()
        self._after(1.0 + 10.0 * self._rng.random(), lambda: self.removed(node))

    def mend_all(self) -> None:
        self.calm = True
        for node in sorted(self._silent):
            self.mend(node)

    def _notice(self, node: str) -> None:
        if node in self._silent and self.exists(node):
            self._mark(node, "Unknown")
            self._after(1.0 + 40.0 * self._rng.random(), lambda: self._expel(node))
            self._after(20.0 + 100.0 * self._rng.random(), lambda: self._maybe_mend(node))

    def _expel(self, node: str) -> None:
        if node in self._silent and self.exists(node):
            self.expelled(node)

    def _maybe_mend(self, node: str) -> None:
        if self._rng.random() < 0.5:
            self.mend(node)

    def _mark(self, node: str, ready: str) -> None:
        if ready != "True":
            self.lost[node] = float("inf")
        elif node in self.lost:
            self.lost[node] = self._story.now
        self._server.change(NODES, ("", node), status=_status(ready))

    def _after(self, delay: float, do: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(delay, do)


def _status(ready: str) -> dict[str, object]:
    return {"conditions": [{"type": "Ready", "status": ready}]}
