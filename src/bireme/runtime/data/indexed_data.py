"""Iterates over a DataLoader whose dataset gives samples by index."""

from __future__ import annotations

import copy
from collections import deque
from typing import Any, Callable, Deque, Dict, Iterator, List, NamedTuple, Optional, Tuple

from . import epoch_order, loaders, rank_shares
from .positions import (
    HandedBatch,
    Position,
    WalkPlan,
    announce_epoch,
    gave_nothing,
    known_position,
    own_state,
)

Loader = Any  # torch's, which is never imported here
Pick = Tuple[int, int, List[int]]
"""What a worker is asked for: the epoch, the number of the step, and the samples."""
Made = Deque[Tuple[int, Callable[[], Position]]]
"""The epoch of each batch that was asked for and has not come yet, and the position after it."""


def indexed_batches(loader: Loader, way: WalkPlan) -> Iterator[HandedBatch]:
    """Shares the samples out; refuses what cannot be shared out at once."""
    loaders.check(loader)
    keeper = _keeper(loader)
    made: Made = deque()
    if keeper is not None:
        picks = _sampled(loader, keeper, way, made, own_state(way))
        return _loaded(loader, way, made, picks, loader.batch_sampler is not None)
    given, total, rule = _shape(loader, way)
    rank_shares.check(total, way.position, rule)
    picks = _shared(total, given, rule, way, made)
    return _loaded(loader, way, made, picks, given.batch is not None)


def indexed_count(loader: Loader, way: WalkPlan) -> Optional[int]:
    """How many steps are left; None where only the user's sampler could tell."""
    if way.epochs is None or _keeper(loader) is not None:
        return None
    _, total, rule = _shape(loader, way)
    return rank_shares.count(total, way.position, rule, way.epochs)


def _keeper(loader: Loader) -> Any:  # Any: the user's sampler
    """The sampler that keeps its own position, if one does."""
    samplers = (loader.batch_sampler, loader.sampler)
    return next((sampler for sampler in samplers if loaders.has_state(sampler)), None)


def _shape(loader: Loader, way: WalkPlan) -> Tuple[loaders.LoaderOptions, int, rank_shares.SharingRule]:
    given = loaders.loader_options(loader)
    total = len(loader.dataset) if given.chosen is None else len(given.chosen)
    rule = rank_shares.SharingRule(
        way.world, given.batch or 1, given.drop_last, merges=given.batch is not None
    )
    return given, total, rule


class BatchDataset:
    """The user's dataset, asked for a whole batch."""

    def __init__(self, dataset: Any, seed: int, rank: int, is_batched: bool) -> None:  # Any: the user's
        self._dataset = dataset
        self._seed = seed
        self._rank = rank
        self._is_batched = is_batched

    def begin(self, worker: int, workers: int) -> Dict[str, object]:
        """What the user's code is to see of its worker."""
        return {"dataset": self._dataset}

    def __getitem__(self, pick: Pick) -> Any:  # Any: the user's samples
        epoch, number, samples = pick
        if loaders.is_in_worker():
            # Which worker makes a batch, and what it made before, must not change how it is made.
            epoch_order.seed_generators(self._seed, "batch", epoch, number, self._rank)
        if not self._is_batched:
            return self._dataset[samples[0]]
        at_once: Optional[Callable[[List[int]], Any]] = getattr(self._dataset, "__getitems__", None)
        return at_once(samples) if at_once else [self._dataset[sample] for sample in samples]


def _loaded(
    loader: Loader, way: WalkPlan, made: Made, picks: Iterator[Pick], is_batched: bool
) -> Iterator[HandedBatch]:
    dataset = BatchDataset(loader.dataset, way.seed, way.rank, is_batched)
    # One loader for all epochs: workers read ahead into the next one instead of being started again.
    for batch in loaders.rebuilt(loader, dataset, picks, loader.collate_fn, way):
        epoch, after = made.popleft()
        yield HandedBatch(epoch, batch, after)


def _shared(
    total: int, given: loaders.LoaderOptions, rule: rank_shares.SharingRule, way: WalkPlan, made: Made
) -> Iterator[Pick]:
    orders = rank_shares.EpochOrders(total, way.seed, given.shuffle)
    for number, cut in enumerate(rank_shares.cuts(total, way.position, rule, way.epochs), way.start):
        samples = orders.taken(cut, way.rank, way.world)
        if given.chosen is not None:
            samples = [given.chosen[sample] for sample in samples]
        made.append((cut.before.epoch, known_position(cut.after)))
        yield cut.before.epoch, number, samples


def _sampled(
    loader: Loader, keeper: Any, way: WalkPlan, made: Made, state: Any
) -> Iterator[Pick]:  # Any: the user's sampler, and what it says of itself
    """Asks for what the user's sampler says; its state is kept for each batch, because workers read ahead."""
    epoch, at, number = way.position.epoch, way.position.at, way.start
    while way.epochs is None or epoch < way.epochs:
        announce_epoch(epoch, loader.sampler, loader.batch_sampler)
        is_loaded = state is not None
        if is_loaded:
            keeper.load_state_dict(state)
            state = None
        is_empty = True
        for samples, after in _with_states(loader, keeper):
            at, is_empty = at + 1, False
            here = (epoch, at) if after.is_within else (epoch + 1, 0)
            made.append((epoch, known_position(Position(*here, inner=after.state, world=way.world))))
            yield epoch, number, samples
            number += 1
        if is_empty and not is_loaded:
            raise gave_nothing(epoch, 1)
        if not is_empty:
            epoch, at = epoch + 1, 0


class _After(NamedTuple):
    state: Any  # a plain tree
    is_within: bool
    """Whether more of the epoch follows."""


def _with_states(loader: Loader, keeper: Any) -> Iterator[Tuple[List[int], _After]]:  # Any: a sampler
    """The sampler's batches of one epoch, each with the sampler's state after it.

    It is asked for one batch ahead. The last batch comes with the state after the end. There some samplers
    begin anew, and others give nothing once: after both comes the next epoch.
    """
    is_batched = loader.batch_sampler is not None
    last: Optional[Tuple[List[int], _After]] = None
    for samples in loader.batch_sampler if is_batched else loader.sampler:
        if last is not None:
            yield last
        last = (list(samples) if is_batched else [samples], _After(copy.deepcopy(keeper.state_dict()), True))
    if last is not None:
        yield last[0], _After(copy.deepcopy(keeper.state_dict()), False)
