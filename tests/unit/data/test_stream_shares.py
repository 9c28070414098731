"""Is a stream shared out like a sequence, though nobody knows its length and it can only be read onwards."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bireme.runtime.data import epoch_order
from bireme.runtime.data.iterable_data import StreamStep, StreamSteps
from bireme.runtime.data.positions import Position, position
from bireme.runtime.data.rank_shares import SharingRule, cuts

Element = tuple[int, int]
"""(epoch, place)."""


class Stream:
    """Elements that say which epoch they belong to."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.epoch = -1

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[Element]:
        return iter([(self.epoch, place) for place in range(self.length)])


class Keeping(Stream):
    """One that knows where it stands; what it says of that goes on changing."""

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.state = {"at": 0}
        self.start = 0

    def state_dict(self) -> dict[str, int]:
        return self.state

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.start = state["at"]

    def __iter__(self) -> Iterator[Element]:
        self.state["at"], self.start = self.start, 0
        while self.state["at"] < self.length:
            self.state["at"] += 1
            yield self.epoch, self.state["at"] - 1


def flow(
    stream: Stream, rule: SharingRule, rank: int, epochs: int | None, here: Position | None = None
) -> StreamSteps[Element]:
    return StreamSteps(stream, here or Position(), rule, rank, epochs, seed=0)


@pytest.mark.parametrize("kind", [Stream, Keeping])
@settings(deadline=None)
@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 30), st.booleans())
def test_is_cut_like_a_sequence_of_the_same_length(
    kind: type[Stream], world: int, batch: int, more: int, drop_last: bool
) -> None:
    total = world * batch + more
    rule = SharingRule(world, batch, drop_last)

    for rank in range(world):
        found = list(flow(kind(total), rule, rank, 2).steps())

        expected = [
            [(cut.before.epoch, place) for place in cut.share(total, rank, world)[1]]
            for cut in cuts(total, Position(), rule, 2)
        ]
        assert [taken.elements for taken in found] == expected
        assert [taken.number for taken in found] == list(range(len(found)))


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, list[tuple[int, int, int]]]:
    """A length, and for each part of the run (ranks, batch size, steps until the next part)."""
    worlds = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    total = draw(st.integers(max(worlds), 25))
    return total, [(world, draw(st.integers(1, 4)), draw(st.integers(0, 9))) for world in worlds]


@pytest.mark.parametrize("kind", [Stream, Keeping])
@pytest.mark.parametrize("merges", [True, False])
@settings(deadline=None)
@given(histories(), st.integers(1, 3))
def test_every_element_is_taken_once_in_each_epoch(
    merges: bool, kind: type[Stream], history: tuple[int, list[tuple[int, int, int]]], epochs: int
) -> None:
    total, parts = history
    taken: Counter[Element] = Counter()
    here = Position()

    for number, (world, batch, steps) in enumerate(parts):
        rule = SharingRule(world, batch if merges else 1, merges=merges)
        until = None if number == len(parts) - 1 else steps
        flows = [flow(kind(total), rule, rank, epochs, here).steps() for rank in range(world)]
        for count, step in enumerate(zip(*flows, strict=True)):
            if count == until:
                break
            assert len({one.after.at for one in step}) == 1
            assert min(len(one.elements) for one in step) >= 1
            assert max(len(one.elements) for one in step) <= rule.batch + merges
            taken.update(element for one in step for element in one.elements)
            here = position(step[0].after.state())

    assert set(taken) == {(epoch, place) for epoch in range(epochs) for place in range(total)}
    repeated = {element: times for element, times in taken.items() if times > 1}
    # Only what is left over at the very end is taken by several, so that no rank goes without.
    assert all(epoch == epochs - 1 for epoch, _ in repeated)
    assert sum(repeated.values()) <= max(world for world, _, _ in parts)
    assert len(repeated) <= 1


@pytest.mark.parametrize("kind", [Stream, Keeping])
@pytest.mark.parametrize(
    "rule", [SharingRule(3, 2), SharingRule(3, 2, drop_last=True), SharingRule(3, merges=False)]
)
@pytest.mark.parametrize("total", [12, 13, 16])
def test_goes_on_from_any_step_as_if_it_had_not_stopped(
    kind: type[Stream], rule: SharingRule, total: int
) -> None:
    whole = list(flow(kind(total), rule, 1, 3).steps())

    for number, taken in enumerate(whole):
        rest = list(flow(kind(total), rule, 1, 3, taken.after).steps())
        assert [renumbered(one, number + 1) for one in rest] == whole[number + 1 :]


def renumbered(taken: StreamStep[Element], more: int) -> StreamStep[Element]:
    return replace(taken, number=taken.number + more)


def test_ends_early_when_an_epoch_is_smaller_than_the_world() -> None:
    assert list(flow(Stream(3), SharingRule(4), 0, 5).steps()) == []
    assert list(flow(Stream(0), SharingRule(1), 0, None).steps()) == []


def test_a_stream_that_cannot_be_read_again_loses_nothing() -> None:
    found = [
        [
            taken.elements[0]
            for taken in StreamSteps(
                iter(range(7)), Position(), SharingRule(3, merges=False), rank, 1, 0
            ).steps()
        ]
        for rank in range(3)
    ]

    assert found == [[0, 3, 6], [1, 4, 6], [2, 5, 6]]


class Forgetful(Keeping):
    """As Hugging Face's: it gives a state that does not say everything."""

    __module__ = "datasets.iterable_dataset"

    def load_state_dict(self, state: dict[str, int]) -> None:
        raise AssertionError("it would lose what is in its shuffle buffer")


def test_a_stream_that_forgets_is_read_again() -> None:
    (first, *whole) = flow(Forgetful(6), SharingRule(1), 0, 2).steps()

    rest = list(flow(Forgetful(6), SharingRule(1), 0, 2, first.after).steps())

    assert [taken.elements for taken in rest] == [taken.elements for taken in whole]
    assert first.after.inner is None


class Shuffling:
    """A stream that draws from the global generator, as most that shuffle do."""

    def __iter__(self) -> Iterator[float]:
        for _ in range(8):
            yield random.random()


def test_random_streams_are_the_same_for_all_and_leave_the_callers_numbers_alone() -> None:
    random.seed(5)
    undisturbed = [random.random() for _ in range(8)]
    whole = [
        taken.elements[0] for taken in StreamSteps(Shuffling(), Position(), SharingRule(1), 0, 2, 0).steps()
    ]

    random.seed(5)
    mixed = []
    found = []
    for taken in epoch_order.with_own_generators(
        StreamSteps(Shuffling(), Position(0, 3), SharingRule(1), 0, 2, 0).steps()
    ):
        found.append(taken.elements[0])
        mixed.append(random.random())

    assert found == whole[3:]
    assert mixed[:8] == undisturbed
    assert whole[:8] != whole[8:]
