"""Iterates over a stream (IterableDataset, any iterable), which each rank reads whole, keeping its own share.

A stream can only be read from its beginning, and its length is not known. So every rank, and every worker of
its loader, reads all of it and keeps what is its own, by the rule of rank_shares.py. The stream is read in
rows of one element for each rank, and one row ahead: only then is it known whether a step is the last of the
epoch, which takes the elements that are left over.
"""

from __future__ import annotations

import copy
import itertools
import operator
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Generic, Iterable, Iterator, List, Optional, Tuple, TypeVar

from . import epoch_order, loaders
from .positions import HandedBatch, Position, WalkPlan, gave_nothing, known_position
from .rank_shares import SharingRule

Loader = Any  # torch's, which is never imported here
Sample = Any  # the user's


def stream_batches(loader: Loader, way: WalkPlan) -> Iterator[HandedBatch]:
    """Shares the stream out: every worker reads it, and keeps what is its own."""
    loaders.check(loader)
    rule = SharingRule(
        way.world, loader.batch_size or 1, loader.drop_last, merges=loader.batch_size is not None
    )
    flow = StreamSteps(loader.dataset, way.position, rule, way.rank, way.epochs, way.seed)
    collate = Collator(loader.collate_fn, way, loader.batch_size is not None)
    return _handed(loaders.rebuilt(loader, stream(flow), None, collate, way), flow)


def stream_elements(data: Any, way: WalkPlan) -> Iterator[HandedBatch]:  # Any: whatever can be iterated
    """Goes through an iterable without a loader; each element is a batch."""
    flow = StreamSteps(
        data, way.position, SharingRule(way.world, merges=False), way.rank, way.epochs, way.seed
    )
    collate = Collator(operator.itemgetter(0), way, True)
    return _handed((collate(taken) for taken in epoch_order.with_own_generators(flow.steps())), flow)


class WorkerStream:
    """A flow, of which each worker takes its turn in the steps."""

    def __init__(self, flow: StreamSteps[Sample]) -> None:
        self.flow = flow
        self._turn = (0, 1)

    def begin(self, worker: int, workers: int) -> Dict[str, object]:
        """What the user's code is to see: that its worker is the only one, so that it reads everything."""
        self._turn = (worker, workers)
        return {"dataset": self.flow.stream, "id": 0, "num_workers": 1}

    def __iter__(self) -> Iterator[StreamStep[Sample]]:
        turn, turns = self._turn
        for taken in epoch_order.with_own_generators(self.flow.steps()):
            if taken.number % turns == turn:
                yield taken


class Collator:
    """Makes the batch of a step, and says where the run stands after it."""

    def __init__(
        self, collate: Callable[[Any], Any], way: WalkPlan, is_batched: bool
    ) -> None:  # Any: the user's
        self._collate = collate
        self._key = (way.seed, "batch")
        self._start = way.start
        self._rank = way.rank
        self._is_batched = is_batched

    def __call__(self, taken: StreamStep[Sample]) -> Tuple[int, Position, Any]:
        if loaders.is_in_worker():
            epoch_order.seed_generators(*self._key, taken.epoch, self._start + taken.number, self._rank)
        found = taken.elements if self._is_batched else taken.elements[0]
        return taken.epoch, taken.after, self._collate(found)


def stream(flow: StreamSteps[Sample]) -> Any:  # Any: a class that cannot be named before torch is there
    """The flow as an IterableDataset."""
    from torch.utils.data import IterableDataset

    class Stream(WorkerStream, IterableDataset):  # type: ignore[misc]
        """Found again by the function that made it when it is sent to a worker."""

        def __reduce__(self) -> Tuple[object, ...]:
            return stream, (self.flow,)

    return Stream(flow)


def _handed(found: Any, flow: StreamSteps[Sample]) -> Iterator[HandedBatch]:  # Any: a loader, or an iterator
    position = flow.position
    for epoch, position, batch in found:
        yield HandedBatch(epoch, batch, known_position(position))
    # A rest that is dropped leaves the position within the last epoch.
    is_dropped = flow.rule.drop_last and position.at > 0
    if flow.epochs is None or position.epoch + is_dropped < flow.epochs:
        # The flow ended before the last epoch did: a whole epoch had too little for all ranks.
        raise gave_nothing(position.epoch, flow.rule.world)


Element = TypeVar("Element")


@dataclass(frozen=True)
class StreamStep(Generic[Element]):
    """What a rank takes in one step."""

    epoch: int
    number: int
    """How many steps came before, since the reading began."""
    elements: List[Element]
    after: Position


@dataclass(frozen=True)
class Row(Generic[Element]):
    """One element for each rank, as one rank keeps it; the last row of a stream may be shorter."""

    count: int
    own: List[Element]
    filled: List[Element]
    """Its own, or if the row was too short for that, the row's first."""


class StreamReader(Generic[Element]):
    """The one way through a stream: first what is left of the tail's epoch, then the epoch itself."""

    def __init__(self, stream: Iterable[Element], position: Position, seed: int) -> None:
        self._stream = stream
        self._seed = seed
        self._here = position
        self._is_stateful = keeps_position(stream)
        self._elements: Optional[Iterator[Element]] = None

    @property
    def position(self) -> Position:
        """Where it stands, with the stream's own state if it keeps one."""
        if not self._is_stateful or self._elements is None:
            return self._here
        # A copy, because the stream may change later what it returned.
        return replace(self._here, inner=copy.deepcopy(_of(self._stream).state_dict()))

    def row(self, world: int, rank: int) -> Row[Element]:
        """Reads one element for each rank, or what is left."""
        first: List[Element] = []
        own: List[Element] = []
        for number in range(world):
            try:
                element = self._next()
            except StopIteration:
                return Row(number, own, own or first)
            if number == 0:
                first = [element]
            if number == rank:
                own = [element]
        return Row(world, own, own)

    def _next(self) -> Element:
        here = self._here
        epoch, start = here.tail if here.tail is not None else (here.epoch, here.at)
        if self._elements is None:
            # A stream that shuffles does so alike on all ranks, and when it is read again up to some place.
            epoch_order.seed_generators(self._seed, "stream", epoch)
            if hasattr(self._stream, "set_epoch"):
                self._stream.set_epoch(epoch)
            if self._is_stateful and here.inner is not None:
                _of(self._stream).load_state_dict(here.inner)
                self._elements = iter(self._stream)
            else:
                elements = iter(self._stream)
                next(itertools.islice(elements, start, start), None)
                self._elements = elements
        if here.tail is None:
            element = next(self._elements)
            self._here = replace(here, at=start + 1, inner=None)
            return element
        try:
            element = next(self._elements)
        except StopIteration:
            self._here, self._elements = Position(here.epoch), None
            return self._next()
        self._here = replace(here, tail=(epoch, start + 1), inner=None)
        return element


@dataclass(frozen=True)
class StreamSteps(Generic[Element]):
    """A rank's steps through a stream, from a position to the end of the last epoch."""

    stream: Iterable[Element]
    position: Position
    rule: SharingRule
    rank: int
    epochs: Optional[int]
    seed: int

    def steps(self) -> Iterator[StreamStep[Element]]:
        """Ends early if a whole epoch gives less than one element for each rank: the last position tells."""
        position, number = self.position, 0
        while self.epochs is None or position.epoch < self.epochs:
            before, first = position, number
            for taken in self._epoch(position, number):
                yield taken
                position, number = taken.after, number + 1
            if number == first and before.at == 0:
                return
            if position.epoch == before.epoch:
                # There was no step that could have said what is left over.
                position = self._following(position, is_rest=number == first)

    def _epoch(self, position: Position, number: int) -> Iterator[StreamStep[Element]]:
        """The steps of one epoch; a step is handed on when the row after it has been read."""
        rule, reading = self.rule, StreamReader(self.stream, position, self.seed)
        elements: List[Element] = []
        mark = position
        rows = 0
        while True:
            row = reading.row(rule.world, self.rank)
            if row.count < rule.world:
                break
            if rows == rule.batch:
                yield StreamStep(position.epoch, number, elements, mark)
                elements, rows, number = [], 0, number + 1
            elements, rows = elements + row.own, rows + 1
            if rows == rule.batch:
                mark = reading.position
        # Left are the step that has been begun, and the last row, which has too few for all ranks.
        step, over = StreamStep(position.epoch, number, elements, mark), Position(position.epoch + 1)
        if rule.drop_last:
            if len(elements) == rule.batch:
                yield replace(step, after=over)
        elif row.count == 0 or (rule.merges and elements):
            if elements:
                yield replace(step, elements=elements + row.own, after=over)
        elif self.epochs is None or over.epoch < self.epochs:
            if elements:
                yield replace(step, after=self._following(mark, is_rest=True))
        else:
            # No epoch follows that they could open, and a stream cannot be turned back for others.
            if elements:
                yield step
            yield StreamStep(step.epoch, number + bool(elements), row.filled, over)

    def _following(self, position: Position, is_rest: bool) -> Position:
        """The beginning of the next epoch, which what is left of this one opens."""
        if not is_rest or self.rule.drop_last:
            return Position(position.epoch + 1)
        return Position(position.epoch + 1, 0, (position.epoch, position.at), position.inner)


def keeps_position(stream: object) -> bool:
    """Whether a stream can continue from a position that it reports itself."""
    if type(stream).__module__.startswith("datasets."):
        # Hugging Face's streams forget what was in their shuffle buffer; reading them again forgets nothing.
        return False
    return hasattr(stream, "state_dict") and hasattr(stream, "load_state_dict")


def _of(stream: object) -> Any:  # Any: it was seen to have the methods
    return stream
