"""A long run says as much as a log can hold, and keeps the shape of its curves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bireme.runtime.records import thinning
from bireme.runtime.records.layout import Scalars

DAY = 86_400.0


def points(names: list[str]) -> list[Scalars]:
    return [Scalars(step, float(step), {name: 0.5}) for step, name in enumerate(names)]


@given(names=st.lists(st.sampled_from(["loss", "accuracy"]), max_size=60), most=st.integers(1, 20))
def test_of_each_name_there_are_few_points_in_their_order_with_the_last_one(
    names: list[str], most: int
) -> None:
    given = points(names)

    kept = thinning.thinned(given, most)

    assert kept == sorted(kept, key=lambda one: one.step)
    for name in ("loss", "accuracy"):
        all_of_it = [one for one in given if name in one.values]
        some_of_it = [one for one in kept if name in one.values]
        assert len(some_of_it) == min(most, len(all_of_it))
        assert some_of_it[-1:] == all_of_it[-1:]


def test_they_are_spread_evenly() -> None:
    kept = thinning.thinned(points(["loss"] * 100), 4)

    assert [one.step for one in kept] == [24, 49, 74, 99]


def test_the_longer_a_run_the_longer_the_pauses() -> None:
    elapsed, portions = 0.0, 0
    while elapsed < 30 * DAY:
        elapsed += thinning.pause(elapsed)
        portions += 1

    assert thinning.pause(0) == thinning.SHORTEST_PAUSE
    assert portions < 10 * 500
