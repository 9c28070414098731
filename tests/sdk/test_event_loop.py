"""Plain functions ask async ones, whatever loop runs already."""

from __future__ import annotations

import asyncio

import pytest

from bireme.sdk.cluster.session import bridge


async def _answer(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def _fail() -> None:
    raise TimeoutError("late")


def test_an_answer_and_an_error_come_back() -> None:
    assert bridge().ask(_answer(3)) == 3
    with pytest.raises(TimeoutError, match="late"):
        bridge().ask(_fail())


def test_it_works_inside_a_loop_as_in_a_notebook() -> None:
    async def notebook() -> int:
        return bridge().ask(_answer(4))

    assert asyncio.run(notebook()) == 4


def test_there_is_one_for_all() -> None:
    assert bridge() is bridge()
