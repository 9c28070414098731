"""Whose request is sent next, and how many of one job at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from bireme.backends.kubernetes.client.api_errors import ApiError
from bireme.backends.kubernetes.request_turns import LONGEST_ACT, Pacer, Turns
from bireme.core.replicas.slow_start import MOST_AT_ONCE
from bireme.model.decisions import Abandon, Start, Stop
from bireme.model.pods import PodSpec
from bireme.model.replicas import Fault


def starts(count: int) -> list[Start]:
    return [
        Start(f"job-worker-{index}", "worker", index, 0, PodSpec(()), restarts_in_place=False)
        for index in range(count)
    ]


class Place:
    """Takes starts until it is full, and remembers how many were under way together."""

    def __init__(self, room: int = 10_000) -> None:
        self.room, self.time = room, 0.0
        self.tried: list[str] = []
        self.together: list[int] = []
        self._under_way = 0

    async def start(self, one: Start) -> Fault | None:
        self.tried.append(one.replica)
        self._under_way += 1
        self.together.append(self._under_way)
        await asyncio.sleep(0)
        self._under_way -= 1
        if self.room == 0:
            return Fault(one.replica, "exceeded quota")
        self.room -= 1
        return None

    def clock(self) -> float:
        return self.time


def test_a_small_job_does_not_wait_behind_a_large_one() -> None:
    async def story() -> list[str]:
        turns = Turns(2)
        sent: list[str] = []

        async def send(job: str) -> None:
            async with turns.turn(job):
                await asyncio.sleep(0)
                sent.append(job)

        async with asyncio.TaskGroup() as tasks:
            for job in ["large"] * 100 + ["small"] * 3:
                tasks.create_task(send(job))
        return sent

    sent = asyncio.run(story())

    assert sent.count("large") == 100
    assert "small" not in sent[9:]


def test_slots_are_all_free_again_after_waiters_were_cancelled() -> None:
    async def story() -> int:
        turns = Turns(3)
        under_way = most = 0

        async def send(job: str) -> None:
            nonlocal under_way, most
            async with turns.turn(job):
                under_way += 1
                most = max(most, under_way)
                try:
                    await asyncio.sleep(0)
                finally:
                    under_way -= 1

        tasks = [asyncio.create_task(send(f"job-{number % 5}")) for number in range(60)]
        for number, task in enumerate(tasks):
            if number % 2:
                task.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(*tasks, return_exceptions=True)
        most = 0
        await asyncio.gather(*(send("last") for _ in range(9)))
        return most

    assert asyncio.run(story()) == 3


def test_twice_as_many_start_together_from_answer_to_answer() -> None:
    place = Place()

    faults, is_over = asyncio.run(Pacer(place.clock, Turns(1000)).start("job", starts(200), place.start))

    assert (faults, is_over) == ({}, False)
    assert len(set(place.tried)) == len(place.tried) == 200
    assert place.together[0] == 1
    assert max(place.together[:3]) == 2
    assert max(place.together[:7]) <= 4
    assert max(place.together) == MOST_AT_ONCE


def test_what_follows_a_refusal_is_not_tried() -> None:
    place = Place(room=10)

    faults, _ = asyncio.run(Pacer(place.clock, Turns(1000)).start("job", starts(5000), place.start))

    assert 1 <= len(faults) <= MOST_AT_ONCE
    assert len(place.tried) == 10 + len(faults)


def test_a_job_whose_starts_are_accepted_does_not_begin_anew_with_each_step() -> None:
    place = Place()
    pacer = Pacer(place.clock, Turns(1000))

    async def story() -> None:
        await pacer.start("job", starts(100), place.start)
        place.together.clear()
        await pacer.start("job", starts(100), place.start)

    asyncio.run(story())

    assert max(place.together[:MOST_AT_ONCE]) == MOST_AT_ONCE


def test_after_a_refusal_a_job_begins_with_one_again() -> None:
    place = Place(room=100)
    pacer = Pacer(place.clock, Turns(1000))

    async def story() -> None:
        await pacer.start("job", starts(200), place.start)
        place.together.clear()
        await pacer.start("job", starts(200), place.start)

    asyncio.run(story())

    assert place.together == [1]


def test_a_name_that_is_taken_stops_nobody_else() -> None:
    async def start(one: Start) -> Fault | None:
        tried.append(one.replica)
        return Fault(one.replica, "taken", alone=True) if one.index == 0 else None

    tried: list[str] = []

    faults, _ = asyncio.run(Pacer(Place().clock, Turns(1000)).start("job", starts(50), start))

    assert list(faults) == ["job-worker-0"]
    assert len(tried) == 50


def test_a_job_that_has_acted_for_long_lets_others_go_first() -> None:
    place = Place()

    async def start(one: Start) -> Fault | None:
        place.time += LONGEST_ACT / 10
        return await place.start(one)

    faults, is_over = asyncio.run(Pacer(place.clock, Turns(1000)).start("job", starts(500), start))

    assert (faults, is_over) == ({}, True)
    assert 10 <= len(place.tried) < 10 + MOST_AT_ONCE


def test_a_replica_that_cannot_be_removed_keeps_no_other() -> None:
    removed: list[str] = []

    def remove(one: Stop | Abandon) -> Awaitable[None]:
        return ask(one.replica)

    async def ask(name: str) -> None:
        removed.append(name)
        if name == "job-0":
            raise ApiError(500, "InternalError", "a webhook did not answer", {})

    async def story() -> str:
        try:
            await Pacer(Place().clock, Turns(1000)).remove(
                "job", [Stop(f"job-{number}", "") for number in range(100)], remove
            )
        except ApiError as error:
            return error.message
        return ""

    assert asyncio.run(story()) == "a webhook did not answer"
    assert len(removed) == 100


def test_a_failure_of_one_lane_is_raised_as_it_is() -> None:
    async def start(one: Start) -> Fault | None:
        raise OSError("the token cannot be read")

    with pytest.raises(OSError, match="token"):
        asyncio.run(Pacer(Place().clock, Turns(1000)).start("job", starts(3), start))
