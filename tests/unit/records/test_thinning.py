"""A long run says as much as a log can hold, and keeps the shape of its curves."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bireme.runtime.records import log_echo, thinning
from bireme.runtime.records.log_echo import Reporter
from bireme.runtime.records.record_format import Scalars, Text
from bireme.runtime.records.thinning import Thinned

HOUR, DAY = 3_600.0, 86_400.0
MEGABYTE = 1 << 20


def thinned(names: list[str]) -> Thinned:
    made = Thinned()
    for step, name in enumerate(names):
        made.add(Scalars(step, float(step), {name: 0.5}))
    return made


@given(names=st.lists(st.sampled_from(["loss", "accuracy"]), max_size=60), bytes=st.integers(0, 3000))
def test_of_each_kind_there_are_some_in_their_order_with_the_last_one(names: list[str], bytes: int) -> None:
    kept = thinned(names).points(bytes)

    assert kept == sorted(kept, key=lambda one: one.step)
    for name in set(names):
        assert [one.step for one in kept if name in one.values][-1] == max(
            step for step, one in enumerate(names) if one == name
        )


def test_they_are_spread_evenly() -> None:
    kept = thinned(["loss"] * 100).points(4 * 61)

    assert [one.step for one in kept] == [24, 49, 74, 99]


def test_however_many_are_added_few_are_held() -> None:
    made = thinned(["loss"] * 100_000)

    kept = [one.step for one in made.points(10**9)]

    assert len(kept) <= 2049
    assert len({later - earlier for earlier, later in pairwise(kept[:-1])}) == 1
    assert kept[-1] == 99_999


def test_of_texts_the_last_few_of_each_name_are_kept() -> None:
    made = Thinned()
    for step in range(20):
        made.add_text(Text(step, 1.0, "sample", "x"))
        made.add_text(Text(step, 1.0, "other", "x"))

    assert [one.step for one in made.texts() if one.name == "sample"] == [15, 16, 17, 18, 19]


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param([["loss"]], id="one number"),
        pytest.param([[f"name-{number}" for number in range(10)]], id="ten numbers in one report"),
        pytest.param([[f"name-{number}"] for number in range(20)], id="twenty reports a step"),
        pytest.param([[f"name-{number}"] for number in range(300)], id="three hundred reports a step"),
    ],
)
def test_a_day_of_training_fits_into_a_log_whatever_is_reported(kinds: list[list[str]]) -> None:
    elapsed, written = 0.0, 0
    while elapsed < DAY:
        made = Thinned()
        for names in kinds:
            for step in range(40 if len(kinds) == 1 else 2):
                made.add(Scalars(step, elapsed, dict.fromkeys(names, 0.123456789)))
        lines = log_echo.lines(Reporter(0, 0, 0), made.points(thinning.budget(elapsed)))
        portion = sum(len(line) + 1 for line in lines)
        written += portion
        elapsed += thinning.pause(elapsed, portion)

    assert written < 9 * MEGABYTE


def test_the_longer_a_run_the_longer_the_pauses() -> None:
    assert thinning.pause(0) == 1.0
    assert thinning.pause(HOUR) == pytest.approx(7.2)
    assert thinning.pause(DAY) == thinning.pause(30 * DAY) == thinning.LONGEST_PAUSE
