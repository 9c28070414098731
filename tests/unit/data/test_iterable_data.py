"""Does a loop go through a DataLoader over a stream exactly, with workers and without."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from torch.utils.data import DataLoader, get_worker_info

from bireme.runtime.data.positions import Position, position
from bireme.runtime.script.complaints import Complaint

from .datasets import Counting, Keeping, Loader, Place, Shuffled, listed, steps_of, walked, with_noise

KINDS = [Counting, Shuffled, Keeping]


def loader(dataset: object, batch_size: int | None = 2, **more: object) -> Loader:
    return DataLoader(dataset, batch_size, **{"collate_fn": listed, **more})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workers", [0, 2])
def test_ranks_share_each_epoch(kind: type[Counting], workers: int) -> None:
    found = [
        walked(steps_of(loader(kind(13), num_workers=workers), Place(rank, 3), epochs=2)) for rank in range(3)
    ]

    for epoch in range(2):
        samples = [one for steps in found for _, its, batch in steps if its == epoch for one in batch]
        assert sorted(samples) == list(range(13))
    assert [[len(batch) for _, _, batch in steps] for steps in found] == [[2, 3] * 2, [2, 2] * 2, [2, 2] * 2]
    assert [number for number, _, _ in found[0]] == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("batch_size", [2, None])
def test_goes_on_from_any_step_as_if_it_had_not_stopped(
    kind: type[Counting], workers: int, batch_size: int | None
) -> None:
    def steps(**more: Any) -> Any:
        return steps_of(loader(kind(13), batch_size, num_workers=workers), Place(1, 2), epochs=2, **more)

    whole = walked(steps())
    # With workers each resumption starts processes; some places will do.
    for count in range(len(whole) + 1) if workers == 0 else (3, len(whole) // 2):
        first = steps()
        assert walked(first, count) == whole[:count]
        here = position(first.position.state())
        first.close()
        assert walked(steps(start=count, position=here)) == whole[count:]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workers", [0, 2])
def test_nothing_is_taken_twice_or_skipped_when_the_number_of_ranks_changes(
    kind: type[Counting], workers: int
) -> None:
    taken: Counter[tuple[int, int]] = Counter()
    here, start = None, 0
    for world, count in [(3, 2), (1, 1), (4, 1), (2, None)]:
        ranks = [
            steps_of(
                loader(kind(31), 3, num_workers=workers), Place(rank, world), here, epochs=2, start=start
            )
            for rank in range(world)
        ]
        found = [walked(rank, count) for rank in ranks]
        assert len({len(steps) for steps in found}) == 1
        taken.update((epoch, one) for steps in found for _, epoch, batch in steps for one in batch)
        here, start = ranks[0].position, start + len(found[0])
        for rank in ranks:
            rank.close()

    assert taken == Counter((epoch, sample) for epoch in range(2) for sample in range(31))


def test_random_numbers_in_workers_depend_on_the_step_alone() -> None:
    def steps(workers: int, **more: Any) -> Any:
        return steps_of(loader(Shuffled(20), collate_fn=with_noise, num_workers=workers), epochs=2, **more)

    whole = walked(steps(2))
    first = steps(1)
    begun = walked(first, 3)
    rest = walked(steps(2, start=3, position=first.position))
    first.close()

    assert begun + rest == whole
    assert len({batch[-1] for _, _, batch in whole}) == len(whole)


def test_without_workers_the_scripts_own_random_numbers_are_left_alone() -> None:
    before = random.getstate()
    walked(steps_of(loader(Shuffled(12)), epochs=2))

    assert random.getstate() == before


def test_drop_last_gives_full_batches_only() -> None:
    steps = steps_of(loader(Counting(27), 4, drop_last=True), Place(1, 2), epochs=2)

    assert [len(batch) for _, _, batch in walked(steps)] == [4, 4, 4] * 2
    assert walked(steps_of(loader(Counting(27), 4, drop_last=True), Place(1, 2), steps.position, 2)) == []


def split_by_hand(worker: int) -> None:
    """What torch's manual says to do; each of ours reads the whole stream."""
    info = get_worker_info()
    assert info is not None
    share = info.dataset.length // info.num_workers
    assert type(info.dataset) is Counting
    info.dataset.length = share * (info.id + 1)


@pytest.mark.parametrize("context", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_a_stream_that_splits_itself_among_workers_is_read_whole(context: str) -> None:
    data = loader(
        Counting(10),
        num_workers=2,
        worker_init_fn=split_by_hand,
        multiprocessing_context=context,
        timeout=250,
    )

    assert [batch for _, _, batch in walked(steps_of(data))] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_that_is_too_short_is_refused(workers: int) -> None:
    steps = steps_of(loader(Counting(3), num_workers=workers), Place(0, 4), epochs=2)

    with pytest.raises(Complaint, match="less than one element for each of 4 ranks in epoch 0"):
        next(steps)


def test_a_stream_without_a_loader_hands_out_its_elements() -> None:
    found = [walked(steps_of(Counting(7), Place(rank, 2), Position())) for rank in range(2)]

    assert [[one for _, _, one in steps] for steps in found] == [[0, 2, 4, 6], [1, 3, 5, 6]]
