"""Does every sample of an epoch go to exactly one rank, however many ranks there are from time to time."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bireme.runtime.data.positions import Position, position
from bireme.runtime.data.rank_shares import EpochOrders, SharingRule, StepSlice, cuts, pending
from bireme.runtime.data.rank_shares import count as counted
from bireme.runtime.script.complaints import Complaint

Taken = Counter[tuple[int, int]]
"""How often each (epoch, place in its order) was taken."""


def take(taken: Taken, cut: StepSlice, total: int, world: int) -> list[int]:
    """Counts what a step takes; gives how much each rank has."""
    sizes = []
    for rank in range(world):
        tail, own = cut.share(total, rank, world)
        if tail and cut.before.tail is not None:
            taken.update((cut.before.tail[0], place) for place in tail)
        taken.update((cut.before.epoch, place) for place in own)
        sizes.append(len(tail) + len(own))
    return sizes


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, list[tuple[int, int, int]]]:
    """A length, and for each part of the run (ranks, batch size, steps until the next part)."""
    worlds = draw(st.lists(st.integers(1, 9), min_size=1, max_size=6))
    total = draw(st.integers(max(worlds), 60))
    return total, [(world, draw(st.integers(1, 6)), draw(st.integers(0, 12))) for world in worlds]


@pytest.mark.parametrize("merges", [True, False])
@settings(deadline=None)
@given(histories(), st.integers(1, 4))
def test_every_sample_is_taken_once_in_each_epoch(
    merges: bool, history: tuple[int, list[tuple[int, int, int]]], epochs: int
) -> None:
    total, parts = history
    taken: Taken = Counter()
    here = Position()

    for number, (world, batch, steps) in enumerate(parts):
        rule = SharingRule(world, batch if merges else 1, merges=merges)
        until = None if number == len(parts) - 1 else steps
        for count, cut in enumerate(cuts(total, here, rule, epochs)):
            if count == until:
                break
            sizes = take(taken, cut, total, world)
            assert min(sizes) >= 1
            assert max(sizes) <= rule.batch + merges
            assert max(sizes) - min(sizes) <= 1
            here = position(cut.after.state())

    assert set(taken.values()) == {1}
    assert {place for place in taken if place[0] < epochs} == {
        (e, i) for e in range(epochs) for i in range(total)
    }
    assert len([place for place in taken if place[0] >= epochs]) < max(world for world, _, _ in parts)


@settings(deadline=None)
@given(histories(), st.integers(1, 4))
def test_dropping_the_last_step_repeats_nothing_and_gives_full_steps(
    history: tuple[int, list[tuple[int, int, int]]], epochs: int
) -> None:
    total, parts = history
    taken: Taken = Counter()
    here = Position()

    for world, batch, steps in parts:
        batch = min(batch, total // world)
        for _, cut in zip(
            range(steps), cuts(total, here, SharingRule(world, batch, drop_last=True), epochs), strict=False
        ):
            assert take(taken, cut, total, world) == [batch] * world
            here = cut.after

    assert set(taken.values()) <= {1}


@settings(deadline=None)
@given(st.integers(1, 9), st.integers(1, 6), st.integers(0, 60), st.booleans())
def test_a_run_goes_on_from_any_step_as_if_it_had_not_stopped(
    world: int, batch: int, more: int, merges: bool
) -> None:
    rule = SharingRule(world, batch if merges else 1, merges=merges)
    total = world + more
    whole = list(cuts(total, Position(), rule, 3))

    for number, cut in enumerate(whole):
        assert list(cuts(total, cut.after, rule, 3)) == whole[number + 1 :]


@settings(deadline=None)
@given(
    histories(),
    st.integers(1, 4),
    st.sampled_from([(True, False), (False, False), (True, True), (False, True)]),
)
def test_steps_are_counted_without_being_made(
    history: tuple[int, list[tuple[int, int, int]]], epochs: int, kind: tuple[bool, bool]
) -> None:
    total, parts = history
    merges, drops = kind
    here = Position()

    for world, batch, steps in parts:
        rule = SharingRule(world, batch if merges else 1, drops, merges)
        if drops and total < world * rule.batch:
            continue
        made = list(cuts(total, here, rule, epochs))
        if here.epoch < epochs:
            assert counted(total, here, rule, epochs) == len(made)
        here = made[min(steps, len(made) - 1)].after if made else here


def test_too_few_for_all_ranks_join_the_last_step() -> None:
    found = list(cuts(11, Position(), SharingRule(world=3, batch=3), 1))

    assert [cut.size for cut in found] == [11]
    assert found[0].after == Position(1)
    assert [len(found[0].share(11, rank, 3)[1]) for rank in range(3)] == [4, 4, 3]


def test_too_few_after_more_ranks_came_open_the_next_epoch() -> None:
    two_ranks = list(cuts(10, Position(), SharingRule(world=2, batch=2), 2))
    here = two_ranks[1].after

    found = list(cuts(10, here, SharingRule(world=4, batch=2), 2))

    assert here == Position(0, 8)
    assert found[0].before == Position(1, 0, tail=(0, 8))
    assert found[0].share(10, 0, 4) == (range(8, 10, 4), range(2, 6, 4))
    assert pending(10, found[0].before) == 12


def test_what_is_left_after_the_last_epoch_is_filled_up() -> None:
    (cut,) = cuts(10, Position(0, 8), SharingRule(world=4, batch=2), 1)

    assert [cut.share(10, rank, 4) for rank in range(4)] == [
        (range(8, 10, 4), range(2, 2, 4)),
        (range(9, 10, 4), range(3, 2, 4)),
        (range(10, 10, 4), range(0, 2, 4)),
        (range(11, 10, 4), range(1, 2, 4)),
    ]
    assert cut.after == Position(1, 2)


@pytest.mark.parametrize(
    ("total", "position", "rule", "words"),
    [
        (3, Position(), SharingRule(4), "4 ranks and 3 samples"),
        (1, Position(), SharingRule(4), "4 ranks and 1 sample,"),
        (
            20,
            Position(),
            SharingRule(4, 8, drop_last=True),
            "takes 32 samples .8 for each rank., and there are only 20",
        ),
        (
            300,
            Position(2, 500),
            SharingRule(4),
            "stands at sample 500 of an epoch, and now there are 300 samples",
        ),
        (300, Position(2, 0, (1, 400)), SharingRule(4), "stands at sample 400"),
    ],
)
def test_data_that_cannot_be_shared_is_refused(
    total: int, position: Position, rule: SharingRule, words: str
) -> None:
    with pytest.raises(Complaint, match=words):
        next(cuts(total, position, rule, None))


def test_ranks_take_different_samples_of_the_shuffled_order() -> None:
    orders = EpochOrders(10, seed=1, shuffle=True)

    found = [
        sample
        for cut in cuts(10, Position(0, 8), SharingRule(world=4, batch=1), 2)
        for rank in range(4)
        for sample in orders.taken(cut, rank, 4)
    ]

    assert sorted(found[:2]) == sorted(orders.of(0)[8:])
    assert sorted(found[2:12]) == list(range(10))
