"""How does a run go through a DataLoader over a stream (IterableDataset), with workers or without."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Tuple

from . import loaders, seeding
from .epoch_order import Position
from .rank_shares import SharingRule
from .stream_shares import StreamStep, StreamSteps
from .walks import HandedBatch, WalkPlan, gave_nothing, known

Loader = Any  # torch's, which is never imported here
Sample = Any  # the user's


def batches(loader: Loader, way: WalkPlan) -> Iterator[HandedBatch]:
    """Shares the stream out: every worker reads it, and keeps what is its own."""
    loaders.check(loader)
    rule = SharingRule(
        way.world, loader.batch_size or 1, loader.drop_last, merges=loader.batch_size is not None
    )
    flow = StreamSteps(loader.dataset, way.position, rule, way.rank, way.epochs, way.seed)
    collate = Collator(loader.collate_fn, way, loader.batch_size is not None)
    return _handed(loaders.rebuilt(loader, stream(flow), None, collate, way), flow)


def elements(data: Any, way: WalkPlan) -> Iterator[HandedBatch]:  # Any: whatever can be iterated
    """Goes through an iterable without a loader; each element is a batch."""
    flow = StreamSteps(
        data, way.position, SharingRule(way.world, merges=False), way.rank, way.epochs, way.seed
    )
    collate = Collator(_only, way, True)
    return _handed((collate(taken) for taken in seeding.apart(flow.steps())), flow)


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
        for taken in seeding.apart(self.flow.steps()):
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
            seeding.seed(*self._key, taken.epoch, self._start + taken.number, self._rank)
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
        yield HandedBatch(epoch, batch, known(position))
    if not _is_over(position, flow):
        raise gave_nothing(position.epoch, flow.rule.world)


def _is_over(position: Position, flow: StreamSteps[Sample]) -> bool:
    """Whether the flow ended where it should, after the last epoch."""
    if flow.epochs is None:
        return False
    # A rest that is dropped leaves the position within the last epoch.
    is_dropped = flow.rule.drop_last and position.at > 0
    return position.epoch + is_dropped >= flow.epochs


def _only(found: List[Sample]) -> Sample:
    return found[0]
