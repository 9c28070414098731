"""Is an epoch's order a permutation, the same everywhere, and shuffled well; is a position kept as it is."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bireme.runtime.data import epoch_order, positions
from bireme.runtime.data.positions import Position
from bireme.runtime.script.complaints import Complaint

LARGE = epoch_order.SHUFFLED_WHOLE + 1


@settings(deadline=None)
@given(st.integers(0, 300) | st.integers(LARGE, LARGE + 3000), st.integers(), st.integers(0, 10**6))
def test_every_sample_has_exactly_one_place(length: int, seed: int, epoch: int) -> None:
    order = epoch_order.permutation(length, seed, epoch)

    assert sorted(order[:]) == list(range(length))


@pytest.mark.parametrize(
    ("length", "expected"),
    [(10, [6, 0, 3, 9, 1, 8, 2, 5, 7, 4]), (10_000_000, [1164158, 8291021, 5911696])],
)
def test_the_order_never_changes_with_the_version(length: int, expected: list[int]) -> None:
    """A checkpoint of last year must find the same order."""
    order = epoch_order.permutation(length, seed=7, epoch=3)

    assert list(order[: len(expected)]) == expected


@pytest.mark.parametrize("length", [1000, LARGE])
def test_each_seed_and_each_epoch_has_an_order_of_its_own(length: int) -> None:
    orders = {
        tuple(epoch_order.permutation(length, seed, epoch)[:20]) for seed in range(5) for epoch in range(5)
    }

    assert len(orders) == 25


ORDER = epoch_order.permutation(LARGE, 0, 0)
# One by one, which is computed without numpy.
WHOLE = list(ORDER)


@settings(deadline=None)
@given(st.data())
def test_a_large_order_is_a_sequence_like_any_other(data: st.DataObject) -> None:
    places = st.none() | st.integers(-LARGE - 5, LARGE + 5)
    part = slice(data.draw(places), data.draw(places), data.draw(st.sampled_from([None, 1, 2, 7, -1])))

    assert ORDER[part] == WHOLE[part]


def test_a_large_order_knows_its_ends() -> None:
    assert (len(ORDER), ORDER[0], ORDER[-1]) == (LARGE, WHOLE[0], WHOLE[-1])
    with pytest.raises(IndexError):
        ORDER[LARGE]


@pytest.mark.parametrize(("size", "world"), [(4, 3), (256, 7), (5000, 1)])
def test_slices_that_follow_each_other_are_those_of_the_whole(size: int, world: int) -> None:
    assert sys.modules["numpy"] is numpy
    order = epoch_order.permutation(LARGE, 0, 0)

    for start in range(2, LARGE, size * world):
        part = slice(start, start + size * world, world)
        assert order[part] == WHOLE[part]


@pytest.mark.parametrize("code", ["", "import numpy"])
def test_the_order_is_the_same_with_numpy_and_without(code: str) -> None:
    shown = (
        "from bireme.runtime.data.epoch_order import permutation; print(permutation(10**6, 1, 2)[5:900:100])"
    )

    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{shown}"], capture_output=True, text=True, check=True
    )

    assert done.stdout == "[626298, 75276, 764822, 317855, 241606, 448044, 401747, 452891, 580556]\n"


@pytest.mark.parametrize("length", [1024, 65536])
def test_neighbours_are_scattered_over_the_whole_length(length: int) -> None:
    """Counts how far apart neighbours land, in sixteenths, over many epochs; the limit is five sigmas."""
    distances = [0] * 16
    for epoch in range(40):
        order = epoch_order.permutation(length, 0, epoch)[:1024]
        for one, other in pairwise(order):
            distances[(other - one) % length * 16 // length] += 1

    total = sum(distances)
    expected, sigma = total / 16, (total / 16) ** 0.5
    assert all(abs(number - expected) < 5 * sigma for number in distances)


@settings(deadline=None)
@given(
    st.builds(
        Position,
        st.integers(0),
        st.integers(0),
        st.none() | st.tuples(st.integers(0), st.integers(0)),
        st.none() | st.dictionaries(st.text(), st.integers()),
        st.integers(0, 9),
    )
)
def test_a_position_is_what_its_state_says(position: Position) -> None:
    assert positions.position(position.state()) == position


@pytest.mark.parametrize(
    "state", [{}, {"epoch": 1}, {"epoch": "x", "at": 0}, {"epoch": 0, "at": 0, "tail": [1]}]
)
def test_what_is_no_position_is_refused(state: dict[str, object]) -> None:
    with pytest.raises(Complaint, match="not a position"):
        positions.position(state)
