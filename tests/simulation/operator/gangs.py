"""Plays a gang scheduler: it places the pods of a group together, and looks again only when it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from bireme.backends.kubernetes.objects import pod_groups
from tests.simulation.operator.server import PODS, Server, Told, Tree, owner_of
from tests.simulation.operator.simulated_pod import Body

GROUPS = pod_groups.PLURAL
PLUGINS = "scheduler-plugins-scheduler"


class GangScheduler:
    """Volcano admits a group after a while; the scheduler plugins forget a pod that they turned away."""

    def __init__(self, server: Server, rng: Random, scheduler: str) -> None:
        self._server, self._rng, self._scheduler = server, rng, scheduler
        self.place: Callable[[Body], None] = lambda body: None
        """Tries to bind a pod."""
        self._turned_away: dict[str, list[Body]] = {}
        self._placed: set[str] = set()
        """Jobs whose group was complete once: what is replaced later is placed by itself."""
        if scheduler:
            server.listeners.append(self._hear)

    def finds_room(self, body: Body) -> bool:
        """Whether a pod may be bound now; one that may not is turned away until its group changes."""
        if not self._scheduler or body.job in self._placed:
            return True
        group = next((one for one in self._groups() if owner_of(one) == body.job), None)
        pods = [one for one in self._server.objects[PODS].values() if owner_of(one) == body.job]
        if group is not None and len(pods) >= group["spec"]["minMember"]:
            self._placed.add(body.job)
            return True
        self._turned_away.setdefault(body.job, []).append(body)
        return False

    def _hear(self, told: Told) -> None:
        if told.plural != GROUPS:
            return
        if told.type == "ADDED" and self._scheduler == pod_groups.VOLCANO:
            self._after(self._rng.random() * 5.0, lambda: self._admit(told))
        if told.type == "MODIFIED":
            for body in self._turned_away.pop(owner_of(told.tree), []):
                self._after(self._rng.random(), lambda body=body: self.place(body))  # type: ignore[misc]

    def _admit(self, told: Told) -> None:
        """Volcano says that there is room for the group, and looks at its pods every second from then on."""
        uid = owner_of(told.tree)
        if told.key in self._server.objects[GROUPS]:
            self._server.change(GROUPS, told.key, status={"phase": "Inqueue"})
            self._look(uid)

    def _look(self, uid: str) -> None:
        if any(owner_of(one) == uid for one in self._groups()):
            for body in self._turned_away.pop(uid, []):
                self.place(body)
            self._after(1.0, lambda: self._look(uid))

    def _groups(self) -> list[Tree]:
        return list(self._server.objects[GROUPS].values())

    def _after(self, delay: float, do: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(delay, do)
