"""Lets jobs take turns with their requests, however many replicas each of them has.

Without that a job of thousands of pods would fill the line, and whatever a small job beside it has to send
would wait behind all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar

from bireme.backends.kubernetes.client.api_errors import ApiError
from bireme.core.replicas import slow_start
from bireme.model.decisions import Abandon, Start, Stop
from bireme.model.replicas import Fault

LONGEST_ACT = 2.0
"""Seconds after which a job that still has replicas to start or to remove lets others go first."""

T = TypeVar("T")


class Turns:
    """Slots for requests; one that becomes free goes to the job that has waited longest for its turn."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}
        """The turns that are waited for, by job: the first job is next, and goes to the end with each."""

    @contextlib.asynccontextmanager
    async def turn(self, job: str) -> AsyncIterator[None]:
        """Wait for a turn of the job, and hold it for as long as this is entered."""
        if self._free and not self._lines:
            self._free -= 1
        else:
            await self._wait(job)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, job: str) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._lines.setdefault(job, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            # The turn may have been given to this task in the moment in which it was cancelled. If it
            # were not passed on then, its slot would be lost for as long as the operator runs.
            if turn.done() and not turn.cancelled():
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        # The slot is handed over, not set free: otherwise a job that asks before the one that waited is woken
        # would overtake it.
        while self._lines:
            job, line = next(iter(self._lines.items()))
            del self._lines[job]
            turn = line.popleft()
            if line:
                self._lines[job] = line
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class Pacer:
    """Carries out the actions of each job: starts slowly at first, and never for long at a time."""

    def __init__(self, clock: Callable[[], float], turns: Turns) -> None:
        self._clock, self._turns = clock, turns
        self._accepted: dict[str, int] = {}
        """How many starts of each job were accepted since the last refusal."""

    def forget(self, key: str) -> None:
        self._accepted.pop(key, None)

    async def start(
        self, key: str, starts: Iterable[Start], start: Callable[[Start], Awaitable[Fault | None]]
    ) -> tuple[dict[str, Fault], bool]:
        """Start one, and more as they are accepted; what follows a refusal is not even tried.

        Returns what was refused, and whether the time was over before all were tried.
        """
        faults: dict[str, Fault] = {}

        async def do(action: Start) -> bool:
            # A pod is built when its turn comes: those of a large job together would fill the memory.
            async with self._turns.turn(key):
                fault = await start(action)
            if fault is not None:
                faults[action.replica] = fault
            return fault is None or fault.alone

        accepted = self._accepted.pop(key, 0)
        done, is_over = await self._each(starts, do, slow_start.lanes, accepted)
        if all(fault.alone for fault in faults.values()):
            self._accepted[key] = done
        return faults, is_over

    async def remove(
        self, key: str, actions: Iterable[Stop | Abandon], remove: Callable[[Stop | Abandon], Awaitable[None]]
    ) -> bool:
        """Remove as many as there is time for; the first failure is raised when no other one is under way.

        Returns whether the time was over before all were tried.
        """
        failures: list[ApiError] = []

        async def do(action: Stop | Abandon) -> bool:
            try:
                async with self._turns.turn(key):
                    await remove(action)
            except ApiError as error:
                failures.append(error)  # One that cannot be removed must not keep the others.
            return True

        _, is_over = await self._each(actions, do, lambda _: slow_start.MOST_AT_ONCE)
        if failures:
            raise failures[0]
        return is_over

    async def _each(
        self,
        items: Iterable[T],
        do: Callable[[T], Awaitable[bool]],
        lanes: Callable[[int], int],
        done: int = 0,
    ) -> tuple[int, bool]:
        """Do something with items in their order, in as many lanes as `lanes` gives for what is done so far.

        The first item that `do` answers by False is the last that is begun.
        """
        left = iter(items)
        ends = self._clock() + LONGEST_ACT
        opened, is_going, is_over = 0, True, False

        async def work() -> None:
            nonlocal done, opened, is_going, is_over
            while is_going and not is_over:
                item = next(left, None)
                if item is None:
                    return
                is_going = await do(item) and is_going
                done += is_going
                is_over = self._clock() >= ends
                if is_going and opened < lanes(done):
                    opened += 1
                    tasks.create_task(work())

        try:
            async with asyncio.TaskGroup() as tasks:
                opened = lanes(done)
                for _ in range(opened):
                    tasks.create_task(work())
        except ExceptionGroup as group:
            # The caller, which counts failures, tells a broken connection from a bug by its type.
            raise group.exceptions[0] from group
        return done, is_over
