"""Iterates over the data of a training loop: step by step, from the exact sample on, over all epochs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Iterator, Optional, Protocol, Tuple

from ..script.complaints import Complaint
from . import epoch_order, indexed_data, iterable_data, loaders, rank_shares
from .iterable_data import StreamReader
from .positions import (
    HandedBatch,
    Position,
    WalkPlan,
    announce_epoch,
    gave_nothing,
    known_position,
    own_state,
)

Data = Any  # whatever the user has


class HasRank(Protocol):
    """Which rank this is, of how many."""

    @property
    def rank(self) -> int: ...
    @property
    def world_size(self) -> int: ...


class Steps:
    """Hands out (step, batch); the steps are counted on over all epochs, and over restarts.

    A loop that was left can be entered again, and continues after the last batch.
    """

    def __init__(
        self,
        data: Data,
        env: HasRank,
        start: int = 0,
        position: Optional[Position] = None,
        epochs: Optional[int] = 1,
        seed: int = 0,
    ) -> None:
        position = position or Position()
        self.step = start
        """The number of the next step."""
        self.epoch = position.epoch
        """The epoch of the last batch that was handed out."""
        self._epochs = epochs
        self._after = known_position(position)
        way = WalkPlan(env.rank, env.world_size, start, position, epochs, seed)
        self._handed = _walk(data, way)
        left = _count(data, way)
        self.total = None if left is None else start + left
        """The number of all steps, those before the start included; None if it cannot be known."""

    @property
    def position(self) -> Position:
        """Where the run stands once the last batch that was handed out has been trained with."""
        return self._after()

    def close(self) -> None:
        """Ends the workers, if the loop was left before its end."""
        close = getattr(self._handed, "close", None)
        if close is not None:
            close()

    def __iter__(self) -> Iterator[Tuple[int, Any]]:
        return self

    def __next__(self) -> Tuple[int, Any]:
        epoch, batch, self._after = next(self._handed)
        # What is left over after the last epoch still belongs to it.
        self.epoch = epoch if self._epochs is None else min(epoch, self._epochs - 1)
        step = self.step
        self.step = step + 1
        return step, batch


class Shard:
    """A rank's elements of a sequence or a stream; iterating goes to the end of the epoch, then to the next.

    Some ranks may get one element more than others. `Steps` makes them equal.
    """

    def __init__(self, data: Data, env: HasRank, position: Position, seed: int, shuffle: bool) -> None:
        if loaders.is_loader(data):
            raise Complaint("a DataLoader makes batches for a loop", "write run.steps(loader)")
        _check(data)
        self.data = data
        self.position = position
        self.seed = seed
        self.shuffle = shuffle
        self._env = env

    def __iter__(self) -> Iterator[Any]:
        if _is_sequence(self.data):
            return self._of_sequence()
        return epoch_order.with_own_generators(self._of_stream())

    def _of_sequence(self) -> Iterator[Any]:
        here, total = self.position, len(self.data)
        rank, world = self._env.rank, self._env.world_size
        orders = rank_shares.EpochOrders(total, self.seed, self.shuffle)
        left = rank_shares.pending(total, here)
        for done in range(0, left, world):
            size = min(world, left - done)
            after = rank_shares.moved(total, here, size)
            own = orders.taken(rank_shares.StepSlice(here, size, after), rank, world)
            here = after
            if own:
                self.position = here if done + size < left else Position(here.epoch + 1)
                yield self.data[own[0]]
        self.position = Position(here.epoch + 1)

    def _of_stream(self) -> Iterator[Any]:
        rank, world = self._env.rank, self._env.world_size
        reading = StreamReader(self.data, self.position, self.seed)
        count = world
        while count == world:
            row = reading.row(world, rank)
            count = row.count
            self.position = reading.position
            yield from row.own
        self.position = Position(self.position.epoch + 1)


def _walk(data: Data, way: WalkPlan) -> Iterator[HandedBatch]:
    if isinstance(data, Shard):
        return _elements(data.data, way, data.shuffle)
    if loaders.is_stream(data):
        return iterable_data.stream_elements(data, way)
    if loaders.has_state(data):
        return _through(data, way, own_state(way))
    if not loaders.is_loader(data):
        return _elements(data, way, shuffle=False)
    if loaders.is_stream(data.dataset):
        return iterable_data.stream_batches(data, way)
    return indexed_data.indexed_batches(data, way)


def _count(data: Data, way: WalkPlan) -> Optional[int]:
    """How many steps are left. Nothing depends on it but what people are shown, so it never complains."""
    try:
        data = data.data if isinstance(data, Shard) else data
        if way.epochs is None or loaders.is_stream(data) or loaders.has_state(data):
            return None
        if loaders.is_loader(data):
            return None if loaders.is_stream(data.dataset) else indexed_data.indexed_count(data, way)
        if not _is_sequence(data):
            return None
        rule = rank_shares.SharingRule(way.world, merges=False)
        return rank_shares.count(len(data), way.position, rule, way.epochs)
    except Exception:  # the user's objects may raise anything when they are asked for their length
        return None


def _elements(data: Data, way: WalkPlan, shuffle: bool) -> Iterator[HandedBatch]:
    _check(data)
    if not _is_sequence(data):
        return iterable_data.stream_elements(data, way)
    rank_shares.check(len(data), way.position, rank_shares.SharingRule(way.world))
    return _of_sequence(data, way, shuffle)


def _of_sequence(data: Data, way: WalkPlan, shuffle: bool) -> Iterator[HandedBatch]:
    total = len(data)
    orders = rank_shares.EpochOrders(total, way.seed, shuffle)
    for cut in rank_shares.cuts(
        total, way.position, rank_shares.SharingRule(way.world, merges=False), way.epochs
    ):
        (own,) = orders.taken(cut, way.rank, way.world)
        yield HandedBatch(cut.before.epoch, data[own], known_position(cut.after))


def _through(loader: Data, way: WalkPlan, state: Any) -> Iterator[HandedBatch]:  # Any: a plain tree
    """Passes on the batches of a loader that keeps its own position, and gives each rank its share itself."""
    epoch, at = way.position.epoch, way.position.at
    while way.epochs is None or epoch < way.epochs:
        announce_epoch(
            epoch, loader, getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)
        )
        if state is not None:
            loader.load_state_dict(state)
            state = None
        for batch in loader:
            at += 1
            yield HandedBatch(epoch, batch, partial(_position_of, loader, epoch, at, way.world))
        if at == 0:
            raise gave_nothing(epoch, 1)
        epoch, at = epoch + 1, 0


def _check(data: Data) -> None:
    is_iterable = hasattr(data, "__iter__") or hasattr(data, "__getitem__")
    if not is_iterable or isinstance(data, (Mapping, str, bytes)):
        raise Complaint(
            f"{type(data).__name__} is not data that a loop can iterate over",
            "use a torch DataLoader, a list of batches, or anything else that can be iterated",
        )


def _is_sequence(data: Data) -> bool:
    return hasattr(data, "__len__") and hasattr(data, "__getitem__") and not loaders.is_stream(data)


def _position_of(loader: Data, epoch: int, at: int, world: int) -> Position:
    return Position(epoch, at, None, loader.state_dict(), world)
