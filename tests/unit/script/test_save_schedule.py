"""Do all ranks save at the same steps, without a word?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from bireme.runtime.script.complaints import Complaint
from bireme.runtime.script.save_schedule import Interval, SaveSchedule, interval
from bireme.runtime.script.step_agreement import AHEAD, AgreementPage


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def ranks(folder: Path, wanted: Interval, clock: Clock, count: int = 2) -> list[SaveSchedule]:
    """Each rank with a mapping of its own of the same page."""
    return [
        SaveSchedule(wanted, rank, count, AgreementPage(str(folder), "0"), clock) for rank in range(count)
    ]


@pytest.mark.parametrize(
    ("every", "expected"),
    [
        (100, Interval(steps=100)),
        ("30s", Interval(seconds=30)),
        ("1.5 m", Interval(seconds=90)),
        ("5min", Interval(seconds=300)),
        ("1h", Interval(seconds=3600)),
    ],
)
def test_intervals_are_steps_or_times(every: int | str, expected: Interval) -> None:
    assert interval(every) == expected


@pytest.mark.parametrize("every", [0, -1, "", "soon", "10", "0s", "-1s", None])
def test_other_intervals_are_refused_with_examples(every: int | str) -> None:
    with pytest.raises(Complaint, match=r'every=100 .* every="30s"'):
        interval(every)


def test_every_so_many_steps(clock: Clock) -> None:
    table = SaveSchedule(Interval(steps=10), 0, 1, None, clock)

    assert [step for step in range(35) if table.is_due(step)] == [9, 19, 29]


def test_every_so_many_seconds_alone(clock: Clock) -> None:
    table = SaveSchedule(Interval(seconds=5), 0, 1, None, clock)
    saved = []
    for step in range(12):
        clock.now += 1
        if table.is_due(step):
            saved.append(step)
            table.saved()

    assert saved == [4, 9]


def test_every_so_many_seconds_all_ranks_choose_the_same_steps(tmp_path: Path, clock: Clock) -> None:
    tables = ranks(tmp_path, Interval(seconds=5), clock, 3)
    saved: list[set[int]] = [set(), set(), set()]
    for step in range(40):
        clock.now += 1
        # Nobody is ever more than one step ahead; who comes first differs from step to step.
        for rank in (step % 3, (step + 1) % 3, (step + 2) % 3):
            if tables[rank].is_due(step):
                saved[rank].add(step)
                tables[rank].saved()

    assert saved[0] == saved[1] == saved[2]
    assert 4 <= len(saved[0]) <= 8


@pytest.mark.parametrize(
    ("steps", "saved"),
    [
        pytest.param(range(0, 100, 10), [20, 40, 60, 80], id="every tenth step"),
        pytest.param(range(7, 60, 13), [20, 46, 59], id="at odd steps"),
        pytest.param(range(0, 100, 50), [50], id="more rarely than the interval"),
        pytest.param([18, 19, 0, 1, *range(2, 21)], [19, 19], id="from the beginning again"),
    ],
)
def test_a_loop_that_offers_few_steps_saves_the_first_one_after_the_interval(
    clock: Clock, steps: Sequence[int], saved: list[int]
) -> None:
    table = SaveSchedule(Interval(steps=20), 0, 1, None, clock)

    assert [step for step in steps if table.is_due(step)] == saved


def test_after_a_restart_the_same_steps_are_saved(clock: Clock) -> None:
    table = SaveSchedule(Interval(steps=100), 0, 1, None, clock)

    table.continue_after(100)

    assert [step for step in range(150, 500, 50) if table.is_due(step)] == [200, 300, 400]


def test_ranks_that_offer_few_steps_choose_the_same_by_the_clock(tmp_path: Path, clock: Clock) -> None:
    tables = ranks(tmp_path, Interval(seconds=5), clock, 3)
    saved: list[list[int]] = [[], [], []]
    for step in range(0, 400, 10):
        clock.now += 10
        for rank in (step // 10 % 3, (step // 10 + 1) % 3, (step // 10 + 2) % 3):
            if tables[rank].is_due(step):
                saved[rank].append(step)
                tables[rank].saved()

    assert saved[0] == saved[1] == saved[2]
    assert len(saved[0]) >= 10


def test_ranks_of_several_machines_must_count_steps(clock: Clock) -> None:
    with pytest.raises(Complaint, match="every=100"):
        SaveSchedule(Interval(seconds=5), 0, 2, None, clock)


def test_who_leaves_first_takes_everybody_along_to_the_same_step(tmp_path: Path, clock: Clock) -> None:
    first, second = ranks(tmp_path, Interval(steps=1000), clock)
    assert not first.is_last(10)

    second.leave()

    assert not second.is_last(10)
    assert not first.is_last(11)
    assert not second.is_last(11)
    assert first.is_last(10 + AHEAD)
    assert second.is_last(10 + AHEAD)


def test_a_rank_that_was_started_again_stays_although_the_old_ones_left(tmp_path: Path, clock: Clock) -> None:
    old = ranks(tmp_path, Interval(steps=1000), clock)
    old[0].leave()
    assert not old[0].is_last(5)
    clock.now += 1

    new = ranks(tmp_path, Interval(steps=1000), clock)

    assert not any(one.is_last(step) for step in range(5, 20) for one in new)
    assert old[1].is_last(5 + AHEAD)
    new[1].leave()
    assert not new[1].is_last(20)
    assert new[0].is_last(20 + AHEAD)


def test_a_rank_alone_leaves_at_once(clock: Clock) -> None:
    table = SaveSchedule(Interval(steps=1000), 0, 1, None, clock)
    assert not table.is_last(3)

    table.leave()

    assert table.is_last(4)


def test_a_new_attempt_does_not_leave_because_the_old_one_did(tmp_path: Path, clock: Clock) -> None:
    (old,) = ranks(tmp_path, Interval(steps=1000), clock, 1)
    old.leave()
    assert old.is_last(0)

    new = SaveSchedule(Interval(steps=1000), 0, 2, AgreementPage(str(tmp_path), "1"), clock)

    assert not new.is_last(5)
