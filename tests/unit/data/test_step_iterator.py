"""Does a loop go through lists, generators, shards and loaders that keep their own position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from bireme.runtime.data.positions import Position, position
from bireme.runtime.data.step_iterator import Shard, Steps
from bireme.runtime.script.complaints import Complaint

from .datasets import Numbers, Place, steps_of, walked


def elements(steps: Steps) -> list[Any]:
    return [batch for _, batch in steps]


def test_a_list_of_batches_is_shared_out_in_its_order() -> None:
    batches = ["a", "b", "c", "d"]

    assert [elements(steps_of(batches, Place(rank, 2))) for rank in range(2)] == [["a", "c"], ["b", "d"]]
    assert elements(steps_of(batches, epochs=2)) == batches * 2


@pytest.mark.parametrize("make", [list, iter])
def test_what_is_left_of_the_last_epoch_is_filled_up(make: Any) -> None:
    found = [elements(steps_of(make(range(7)), Place(rank, 3))) for rank in range(3)]

    assert [len(one) for one in found] == [3, 3, 3]
    assert {one for rank in found for one in rank} == set(range(7))


def test_what_is_left_of_the_last_epoch_belongs_to_it() -> None:
    steps = steps_of(list(range(7)), Place(1, 3), epochs=2)

    assert [epoch for _, epoch, _ in walked(steps)] == [0, 0, 1, 1, 1]
    assert [epoch for _, epoch, _ in walked(steps_of(list(range(7)), Place(1, 3)))] == [0, 0, 0]


def test_a_generator_goes_on_where_it_was() -> None:
    first = steps_of((number for number in range(10)), Place(1, 2))
    begun = walked(first, 2)

    rest = walked(steps_of((number for number in range(10)), Place(1, 2), first.position, start=2))

    assert begun + rest == [(number, 0, number * 2 + 1) for number in range(5)]


def test_a_generator_has_one_epoch_only() -> None:
    steps = steps_of((number for number in range(2)), epochs=2)
    walked(steps, 2)

    with pytest.raises(Complaint, match=r"gave nothing in epoch 1.*iterated again"):
        next(steps)


@settings(deadline=None)
@given(st.integers(1, 5), st.integers(0, 30), st.booleans(), st.booleans(), st.integers(0, 40))
def test_a_shard_gives_each_element_to_one_rank(
    world: int, total: int, is_stream: bool, shuffle: bool, stop: int
) -> None:
    taken: Counter[int] = Counter()

    for rank in range(world):
        data: Any = Stream(total) if is_stream else list(range(total))
        first = Shard(data, Place(rank, world), Position(), 0, shuffle)
        begun = [one for _, one in zip(range(stop), first, strict=False)]
        rest = (
            [] if first.position.epoch else list(Shard(data, Place(rank, world), first.position, 0, shuffle))
        )
        taken.update(begun + rest)

    assert taken == Counter(range(total))


class Stream:
    """Numbers that can only be read onwards, again and again."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.length))


def test_a_shard_is_another_one_in_each_epoch() -> None:
    data = Shard(range(40), Place(0, 2), Position(), 0, True)

    first, second = list(data), list(data)

    assert len(first) == len(second) == 20
    assert first != second
    assert data.position == Position(2)


def test_after_its_last_element_a_shard_stands_at_the_next_epoch() -> None:
    data = Shard([1, 2, 3, 4], Place(1, 2), Position(), 0, False)
    reading = iter(data)

    found = [(next(reading), data.position), (next(reading), data.position)]

    assert found == [(2, Position(0, 2)), (4, Position(1))]


def test_a_shard_in_a_loop_goes_on_from_any_step() -> None:
    def steps(**more: Any) -> Steps:
        return steps_of(Shard(range(11), Place(1, 2), Position(), 0, True), Place(1, 2), epochs=2, **more)

    whole = walked(steps())
    for count in range(len(whole) + 1):
        first = steps()
        assert walked(first, count) == whole[:count]
        assert walked(steps(start=count, position=first.position)) == whole[count:]
    assert len(whole) == 11


class Keeper:
    """A loader that keeps its own position, as that of torchdata does."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.at = self.start = self.epoch = 0
        self.asked = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def state_dict(self) -> dict[str, int]:
        self.asked += 1
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.start = state["at"]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        self.at, self.start = self.start, 0
        while self.at < self.length:
            self.at += 1
            yield self.epoch, self.at - 1


def test_a_loader_with_a_state_is_handed_through() -> None:
    whole = walked(steps_of(Keeper(3), Place(1, 2), epochs=2))

    for count in range(1, 7):
        first = steps_of(Keeper(3), Place(1, 2), epochs=2)
        walked(first, count)
        here = position(first.position.state())
        assert walked(steps_of(Keeper(3), Place(1, 2), here, epochs=2, start=count)) == whole[count:]
    assert whole == [(number, number // 3, (number // 3, number % 3)) for number in range(6)]


def test_a_loader_is_asked_for_its_state_only_to_save_it() -> None:
    loader = Keeper(10)
    steps = steps_of(loader)

    walked(steps, 5)

    assert loader.asked == 0
    assert steps.position == Position(0, 5, None, {"at": 5}, 1)


class OfHuggingFace(Keeper):
    """A stream that has a state, but leaves the sharing to others."""

    __module__ = "datasets.iterable_dataset"


def test_a_stream_of_hugging_face_is_shared_out() -> None:
    found = [elements(steps_of(OfHuggingFace(4), Place(rank, 2))) for rank in range(2)]

    assert found == [[(0, 0), (0, 2)], [(0, 1), (0, 3)]]


@pytest.mark.parametrize(
    ("world", "here", "words"),
    [
        (3, Position(0, 4, None, {"at": 4}, 2), "is valid for 2 ranks; now there are 3; start 2 workers"),
        (2, Position(0, 4), "the checkpoint does not have it"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(world: int, here: Position, words: str) -> None:
    with pytest.raises(Complaint, match=words):
        steps_of(Keeper(9), Place(0, world), here)


@pytest.mark.parametrize("data", [Keeper(0), []])
def test_empty_data_is_refused(data: Any) -> None:
    with pytest.raises(Complaint, match=r"gave nothing in epoch 0|the data is empty"):
        next(steps_of(data, epochs=None))


@pytest.mark.parametrize("data", [3, {"a": 1}, "text", None])
def test_what_is_no_data_is_refused(data: Any) -> None:
    with pytest.raises(Complaint, match=f"{type(data).__name__} is not data"):
        steps_of(data)


def test_a_shard_of_a_loader_is_refused() -> None:
    with pytest.raises(Complaint, match=r"run\.steps\(loader\)"):
        Shard(DataLoader(Numbers(3)), Place(), Position(), 0, False)


def test_before_the_first_step_the_position_is_the_one_it_was_given() -> None:
    steps = steps_of([1, 2, 3], position=Position(1, 2), epochs=3, start=5)

    assert (steps.position, steps.epoch, steps.step) == (Position(1, 2), 1, 5)
    assert walked(steps, 2) == [(5, 1, 3), (6, 2, 1)]
