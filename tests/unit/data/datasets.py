"""Datasets whose samples say who they are, for the tests of this folder."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch.utils.data import IterableDataset, get_worker_info

from bireme.runtime.data.positions import Position
from bireme.runtime.data.step_iterator import Steps

Loader = Any  # torch has no types here
Step = tuple[int, int, Any]
"""(number, epoch, batch)."""


@dataclass(frozen=True)
class Place:
    rank: int = 0
    world_size: int = 1


class Numbers:
    """The numbers below a length."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, sample: int) -> int:
        return sample


class Augmented(Numbers):
    """Each with random numbers of all libraries, as an augmentation would draw."""

    def __getitem__(self, sample: int) -> Any:
        return sample, random.random(), float(numpy.random.random()), float(torch.rand(()))


class AtOnce(Numbers):
    """Numbers that are read many at a time."""

    def __getitem__(self, sample: int) -> int:
        raise AssertionError("one by one")

    def __getitems__(self, samples: list[int]) -> list[int]:
        return samples


class Counting(IterableDataset):  # type: ignore[misc]
    """The numbers below a length, as a stream, split among workers as torch's manual says."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        start, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(start, self.length, step))


class Shuffled(Counting):
    """A stream that shuffles itself with the global generator."""

    def __iter__(self) -> Iterator[Any]:
        numbers = list(super().__iter__())
        random.shuffle(numbers)
        return iter(numbers)


class Keeping(Counting):
    """A stream that knows where it stands, and is never read from the beginning for that."""

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.at = self.start = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.start = state["at"]

    def __iter__(self) -> Iterator[Any]:
        self.at, self.start = self.start, 0
        while self.at < self.length:
            self.at += 1
            yield self.at - 1


def listed(samples: list[Any]) -> list[Any]:
    """Collates nothing; a function of a module, so that workers can be sent it."""
    return samples


def with_noise(samples: list[Any]) -> list[Any]:
    """Collates with a random number."""
    return [*samples, random.random()]


def steps_of(
    data: Iterable[Any],
    place: Place | None = None,
    position: Position | None = None,
    epochs: int | None = 1,
    start: int = 0,
    seed: int = 0,
) -> Steps:
    return Steps(data, place or Place(), start, position or Position(), epochs, seed)


def walked(steps: Steps, limit: int | None = None) -> list[Step]:
    """The steps up to a limit."""
    found: list[Step] = []
    while limit is None or len(found) < limit:
        handed = next(steps, None)
        if handed is None:
            break
        number, batch = handed
        found.append((number, steps.epoch, batch))
    return found
