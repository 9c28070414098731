"""Whose turn it is."""

from __future__ import annotations

import asyncio

import pytest

from bireme.operator.workqueue import Queue


class Clock:
    """The loop's own time, so that timers and the queue agree."""

    def __call__(self) -> float:
        return asyncio.get_running_loop().time()


async def taken(queue: Queue, count: int) -> list[str]:
    keys = []
    for _ in range(count):
        keys.append(await asyncio.wait_for(queue.take(), 5))
        queue.done(keys[-1])
    return keys


def test_keys_come_in_the_order_in_which_they_were_added() -> None:
    async def story() -> list[str]:
        queue = Queue(Clock())
        for key in ("a", "b", "c"):
            queue.add(key)
        return await taken(queue, 3)

    assert asyncio.run(story()) == ["a", "b", "c"]


def test_a_key_that_waits_already_is_not_added_again() -> None:
    async def story() -> int:
        queue = Queue(Clock())
        queue.add("a")
        queue.add("a")
        return len(queue)

    assert asyncio.run(story()) == 1


def test_a_key_is_worked_on_by_one_at_a_time_and_comes_again_afterwards() -> None:
    async def story() -> tuple[int, str]:
        queue = Queue(Clock())
        queue.add("a")
        key = await queue.take()
        queue.add("a")
        while_busy = len(queue)
        queue.done(key)
        return while_busy, await asyncio.wait_for(queue.take(), 5)

    assert asyncio.run(story()) == (0, "a")


def test_a_clock_that_is_set_back_stretches_no_time() -> None:
    async def story() -> list[str]:
        now = 1000.0
        queue = Queue(lambda: now)
        queue.add_at("a", now + 0.05)
        now -= 3600.0
        return await taken(queue, 1)

    assert asyncio.run(story()) == ["a"]


def test_of_several_times_the_earliest_holds() -> None:
    async def story() -> tuple[list[str], int]:
        queue = Queue(Clock())
        now = Clock()()
        queue.add_at("late", now + 0.2)
        queue.add_at("late", now + 60)
        queue.add_at("early", now + 60)
        queue.add_at("early", now + 0.1)
        keys = await taken(queue, 2)
        await asyncio.sleep(0)
        return keys, len(queue)

    assert asyncio.run(story()) == (["early", "late"], 0)


def test_a_step_now_replaces_one_that_was_asked_for_later() -> None:
    async def story() -> list[str]:
        queue = Queue(Clock())
        queue.add_at("a", Clock()() + 0.05)
        queue.add("a")
        first = await taken(queue, 1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(queue.take(), 0.2)
        return first

    assert asyncio.run(story()) == ["a"]


def test_all_who_wait_are_served() -> None:
    async def story() -> set[str]:
        queue = Queue(Clock())
        waiting = [asyncio.create_task(queue.take()) for _ in range(3)]
        await asyncio.sleep(0)
        for key in ("a", "b", "c"):
            queue.add(key)
        return set(await asyncio.wait_for(asyncio.gather(*waiting), 5))

    assert asyncio.run(story()) == {"a", "b", "c"}
