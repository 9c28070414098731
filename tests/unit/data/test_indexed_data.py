"""Does a loop go through a real DataLoader exactly: shared out, shuffled anew, resumed at the sample."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    get_worker_info,
)

from bireme.runtime.data.positions import position
from bireme.runtime.script.complaints import Complaint

from .datasets import AtOnce, Augmented, Loader, Numbers, Place, listed, steps_of, walked


def loader(dataset: object, batch_size: int | None = 4, **more: object) -> Loader:
    return DataLoader(dataset, batch_size, collate_fn=listed, **more)


@pytest.mark.parametrize("workers", [0, 2])
def test_ranks_share_an_epoch_and_each_epoch_is_shuffled_anew(workers: int) -> None:
    found = [
        walked(steps_of(loader(Numbers(27), shuffle=True, num_workers=workers), Place(rank, 2), epochs=2))
        for rank in range(2)
    ]

    samples = {
        epoch: [
            one for steps in found for _, its_epoch, batch in steps if its_epoch == epoch for one in batch
        ]
        for epoch in range(2)
    }
    assert sorted(samples[0]) == sorted(samples[1]) == list(range(27))
    assert samples[0] != samples[1] != list(range(27))
    # Three steps of 2 x 4 are full; 3 are left, enough for a step of their own.
    assert [[len(batch) for _, _, batch in steps] for steps in found] == [[4, 4, 4, 2] * 2, [4, 4, 4, 1] * 2]
    assert [number for number, _, _ in found[0]] == list(range(8))


def test_an_order_that_was_not_shuffled_is_kept() -> None:
    found = [walked(steps_of(loader(Numbers(8), 2), Place(rank, 2))) for rank in range(2)]

    assert found == [[(0, 0, [0, 2]), (1, 0, [4, 6])], [(0, 0, [1, 3]), (1, 0, [5, 7])]]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("batch_size", [3, None])
def test_goes_on_from_any_step_as_if_it_had_not_stopped(workers: int, batch_size: int | None) -> None:
    def steps(**more: Any) -> Any:
        data = loader(Numbers(14), batch_size, shuffle=True, num_workers=workers)
        return steps_of(data, Place(1, 2), epochs=2, **more)

    whole = walked(steps())
    # With workers each resumption starts processes; some places will do.
    for count in range(len(whole) + 1) if workers == 0 else (1, len(whole) // 2, len(whole)):
        first = steps()
        assert walked(first, count) == whole[:count]
        here = position(first.position.state())
        first.close()
        assert walked(steps(start=count, position=here)) == whole[count:]


def test_random_numbers_in_workers_depend_on_the_step_alone() -> None:
    def steps(workers: int, **more: Any) -> Any:
        return steps_of(loader(Augmented(20), num_workers=workers), epochs=2, **more)

    whole = walked(steps(2))
    first = steps(1)
    begun = walked(first, 3)
    rest = walked(steps(2, start=3, position=first.position))
    first.close()

    assert begun + rest == whole
    drawn = Counter(number for _, _, batch in whole for sample in batch for number in sample[1:])
    assert set(drawn.values()) == {1}


@pytest.mark.parametrize("workers", [0, 2])
def test_the_scripts_own_random_numbers_are_left_alone(workers: int) -> None:
    def state() -> tuple[object, ...]:
        return random.getstate(), str(numpy.random.get_state()), torch.get_rng_state().tolist()

    before = state()
    walked(steps_of(loader(Numbers(12), shuffle=True, num_workers=workers), epochs=2))

    assert state() == before


def test_without_workers_samples_draw_from_the_scripts_own_numbers() -> None:
    random.seed(3)
    expected = [random.random() for _ in range(4)]

    random.seed(3)
    (step,) = walked(steps_of(loader(Augmented(4))))

    assert [sample[1] for sample in step[2]] == expected


def test_nothing_is_taken_twice_or_skipped_when_the_number_of_ranks_changes() -> None:
    taken: Counter[tuple[int, int]] = Counter()
    here, start = None, 0
    for world, count in [(3, 2), (1, 1), (4, 1), (2, None)]:
        ranks = [
            steps_of(loader(Numbers(31), 3, shuffle=True), Place(rank, world), here, epochs=2, start=start)
            for rank in range(world)
        ]
        found = [walked(rank, count) for rank in ranks]
        assert len({len(steps) for steps in found}) == 1
        taken.update((epoch, one) for steps in found for _, epoch, batch in steps for one in batch)
        here, start = ranks[0].position, start + len(found[0])

    assert taken == Counter((epoch, sample) for epoch in range(2) for sample in range(31))


def seen_by(worker: int) -> None:
    info = get_worker_info()
    assert info is not None
    assert type(info.dataset) is Numbers
    assert (info.id, info.num_workers) == (worker, 2)
    info.dataset.length = 1000 + worker


def lengths(samples: list[int]) -> list[int]:
    info = get_worker_info()
    return [info.dataset.length] if info is not None else []


@pytest.mark.parametrize("context", [None, pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_begin_as_the_user_said(context: str | None) -> None:
    data: Any = DataLoader(
        Numbers(8),
        2,
        collate_fn=lengths,
        num_workers=2,
        worker_init_fn=seen_by,
        persistent_workers=True,
        prefetch_factor=3,
        timeout=250,
        multiprocessing_context=context,
    )

    assert [batch for _, _, batch in walked(steps_of(data))] == [[1000], [1001], [1000], [1001]]


def test_a_loop_that_was_left_goes_on_when_it_is_entered_again() -> None:
    steps = steps_of(loader(Numbers(8), 2))

    first = [number for number, _ in zip(range(2), steps, strict=False)]
    rest = [number for number, _ in steps]

    assert (first, rest) == ([0, 1], [2, 3])


def test_batches_are_collated_and_read_at_once_as_the_loader_says() -> None:
    plain: Any = DataLoader(AtOnce(5), 2)

    found = [batch.tolist() for _, batch in steps_of(plain)]

    assert found == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize(
    ("more", "shuffles"),
    [
        ({"sampler": RandomSampler(range(40))}, True),
        ({"sampler": SequentialSampler(range(40))}, False),
        ({"sampler": DistributedSampler(Numbers(40), 2, 0)}, True),
        ({"sampler": DistributedSampler(Numbers(40), 2, 0, shuffle=False)}, False),
        ({"batch_size": 1, "batch_sampler": BatchSampler(RandomSampler(range(40)), 4, True)}, True),
    ],
)
def test_samplers_of_torch_are_understood(more: dict[str, object], shuffles: bool) -> None:
    found = walked(steps_of(loader(Numbers(40), **more)))  # type: ignore[arg-type]

    samples = [one for _, _, batch in found for one in batch]
    assert [len(batch) for _, _, batch in found] == [4] * 10
    assert sorted(samples) == list(range(40))
    assert (samples != list(range(40))) == shuffles


def test_a_subset_is_shuffled_within_itself() -> None:
    found = walked(steps_of(loader(Numbers(100), sampler=SubsetRandomSampler(range(50, 62)))))

    assert sorted(one for _, _, batch in found for one in batch) == list(range(50, 62))


def test_drop_last_gives_full_batches_only() -> None:
    found = [walked(steps_of(loader(Numbers(27), drop_last=True), Place(rank, 2))) for rank in range(2)]

    assert [[len(batch) for _, _, batch in steps] for steps in found] == [[4, 4, 4]] * 2


class Own:
    """A sampler with an order of its own."""

    def __iter__(self) -> Any:
        return iter(range(6))


class OwnLoader(DataLoader):  # type: ignore[misc]
    """A loader that reads in a way of its own."""

    def __iter__(self) -> Any:
        return iter([1])


@pytest.mark.parametrize(
    ("data", "place", "words"),
    [
        (loader(Numbers(6), sampler=Own()), Place(), "the sampler Own has its own order.*shuffle=True"),
        (loader(Numbers(6), 1, batch_sampler=[[1, 2]]), Place(), "the batch_sampler list has its own order"),
        (loader(Numbers(6), sampler=WeightedRandomSampler([1] * 6, 6)), Place(), "WeightedRandomSampler"),
        (loader(Numbers(6), sampler=RandomSampler(range(6), True)), Place(), "the sampler RandomSampler"),
        (loader(Numbers(6), sampler=RandomSampler(range(5))), Place(), "the sampler RandomSampler"),
        (loader(Numbers(3)), Place(0, 4), "4 ranks and 3 samples"),
        (OwnLoader(Numbers(3)), Place(), "OwnLoader reads in its own way"),
    ],
)
def test_what_cannot_be_shared_out_is_refused_before_the_loop(data: Loader, place: Place, words: str) -> None:
    with pytest.raises(Complaint, match=words):
        steps_of(data, place)


class Backwards:
    """A sampler that keeps its own position, and at the end begins anew."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.epoch = 0
        self.state = {"at": 0}

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def state_dict(self) -> dict[str, int]:
        return self.state

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.state = dict(state)

    def __iter__(self) -> Any:
        while self.state["at"] < self.length:
            self.state["at"] += 1
            yield (self.length - self.state["at"] + self.epoch) % self.length
        self.state["at"] = 0


class Ending(Backwards):
    """One that stays at the end until it is iterated again, as that of torchdata does."""

    start = 0

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.start = state["at"]

    def __iter__(self) -> Any:
        self.state["at"], self.start = self.start, 0
        yield from super().__iter__()
        self.state["at"] = self.length


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("batch_size", [3, None])
@pytest.mark.parametrize("kind", [Backwards, Ending])
def test_a_sampler_with_a_state_is_used_as_it_is(
    kind: type[Backwards], workers: int, batch_size: int | None
) -> None:
    def steps(**more: Any) -> Any:
        data = loader(Numbers(10), batch_size, sampler=kind(10), num_workers=workers)
        return steps_of(data, Place(1, 2), epochs=2, **more)

    whole = walked(steps())
    for count in range(len(whole) + 1) if workers == 0 else (2, len(whole) // 2):
        first = steps()
        assert walked(first, count) == whole[:count]
        here = position(first.position.state())
        first.close()
        assert walked(steps(start=count, position=here)) == whole[count:]
    if batch_size == 3:
        assert [batch for _, _, batch in whole[:5]] == [[9, 8, 7], [6, 5, 4], [3, 2, 1], [0], [0, 9, 8]]


def test_a_state_of_its_own_does_not_fit_another_number_of_ranks() -> None:
    steps = steps_of(loader(Numbers(10), sampler=Backwards(10)), Place(0, 2))
    walked(steps, 1)

    with pytest.raises(Complaint, match="is valid for 2 ranks; now there are 3"):
        steps_of(loader(Numbers(10), sampler=Backwards(10)), Place(0, 3), steps.position)
    with pytest.raises(Complaint, match="a loader that kept its own position"):
        steps_of(loader(Numbers(10)), Place(0, 2), steps.position)
