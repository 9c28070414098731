"""How does a simulated operator live: the real controller and the real lease, until it is killed."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import traceback

from bireme.backends.kubernetes.client.api import ApiError
from bireme.backends.kubernetes.pod_backend import Settings
from bireme.operator.controller import Controller, Scope
from bireme.operator.leader_election import Leadership, LostLead
from bireme.operator.metrics import Metrics
from tests.simulation.operator.history import Story
from tests.simulation.operator.network import Client, Line, Network


class Operator:
    """One process of an operator, with all that it has only in memory."""

    def __init__(self, number: int, network: Network, story: Story, *, lease: bool) -> None:
        self.name = f"operator-{number}"
        self._story, self._lease = story, lease
        self._scheduler = network.profile.scheduler
        self.line = Line(self.name, network, self.kill)
        self._metrics = Metrics()
        self._task: asyncio.Task[None] | None = None
        self.leads_since = story.now if not lease else float("-inf")

    def start(self) -> None:
        self._story.tell(f"{self.name} begins")
        self._task = asyncio.get_running_loop().create_task(self._live())

    def kill(self) -> None:
        """As kill -9 does: between any two moments, and without a farewell."""
        if self.line.is_dead or self._task is None:
            return
        self._story.tell(f"{self.name} is killed")
        self.line.die()
        self._task.cancel()

    async def wait(self) -> None:
        assert self._task is not None
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    @property
    def ended(self) -> bool:
        return self._task is not None and self._task.done()

    @property
    def steps(self) -> float:
        return sum(value for _, value in self._metrics.steps.samples())

    async def _live(self) -> None:
        async with Client(self.line) as api:
            settings = Settings(gang_scheduler=self._scheduler)
            controller = Controller(api, Scope(), settings, self._metrics, self.name, LoopClock())
            try:
                await self._carry_on(api, controller)
            except* (LostLead, ApiError) as group:  # The latter of who could not even ask for the lead.
                self._story.tell(f"{self.name} ends: {group.exceptions[0]}")
            except* Exception as group:
                self._story.breaks(f"{self.name} fell: {group.exceptions}", traceback.format_exc())
            self.line.is_dead = True

    async def _carry_on(self, api: Client, controller: Controller) -> None:
        if not self._lease:
            await controller.run()
            return
        leadership = Leadership(api, "system", "lease", self.name, LoopClock())
        await leadership.take()
        self.leads_since = self._story.now
        self._story.tell(f"{self.name} leads")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(leadership.keep())
            tasks.create_task(controller.run())


class LoopClock:
    """The loop's time, which is the only one in a simulation."""

    def time(self) -> float:
        return asyncio.get_running_loop().time()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


class Operators:
    """Everybody who acts, or wants to."""

    def __init__(self, network: Network, story: Story, *, lease: bool) -> None:
        self._network, self._story, self._lease = network, story, lease
        self._numbers = itertools.count(1)
        self.all: list[Operator] = []

    def add(self) -> Operator:
        one = Operator(next(self._numbers), self._network, self._story, lease=self._lease)
        self.all.append(one)
        one.start()
        return one

    def living(self) -> list[Operator]:
        return [one for one in self.all if not one.line.is_dead and not one.ended]

    def acts_alone(self) -> bool:
        """Whether nobody acts beside another one."""
        return self._lease or len(self.living()) <= 1

    def begun(self, who: str) -> float:
        """When one of them began to act."""
        return next(one.leads_since for one in self.all if one.name == who)

    def is_deposed(self, who: str) -> bool:
        """Whether another one has taken the lead meanwhile."""
        begun = self.begun(who)
        return self._lease and any(one.leads_since > begun for one in self.all)

    @property
    def steps(self) -> float:
        return sum(one.steps for one in self.all)
