"""Shares out the samples of an epoch: which rank takes which in each step, each sample exactly once.

A step takes the next `world * batch` samples of the epoch's order, and deals them out one by one: rank r
gets the r-th, then the one `world` later, and so on. Every rank has a sample in every step, or its peers
would wait for it for ever. So fewer samples than ranks at the end of an epoch join its last step. If that is
past already, because there were fewer ranks then, they open the next epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Iterator, List, Optional, Sequence, Tuple

from ..script.complaints import Complaint
from .epoch_order import permutation
from .positions import Position

_MOST_EPOCHS = 100_000


@dataclass(frozen=True)
class SharingRule:
    """How the samples of an epoch are cut into steps."""

    world: int
    batch: int = 1
    drop_last: bool = False
    merges: bool = True
    """Whether a rank can take one sample more; not if each is a batch of its own (then `batch` is 1)."""

    def size(self, pending: int) -> int:
        """How many samples the next step takes of those that are left; 0 if they make no step."""
        full = self.world * self.batch
        if pending >= full + self.world:
            return full
        if pending < self.world:
            return 0
        if self.drop_last or not self.merges:
            return full if pending >= full else 0
        return pending


@dataclass(frozen=True)
class StepSlice:
    """One step of all ranks: the next `size` samples after a position."""

    before: Position
    size: int
    after: Position

    def share(self, total: int, rank: int, world: int) -> Tuple[range, range]:
        """A rank's places in the order of the tail's epoch, and in the order of the epoch itself."""
        waiting = 0
        tail = range(0)
        if self.before.tail is not None:
            start = self.before.tail[1]
            waiting = min(total - start, self.size)
            tail = range(start + rank, start + waiting, world)
        at = self.before.at
        return tail, range(at + (rank - waiting) % world, at + self.size - waiting, world)


def cuts(total: int, position: Position, rule: SharingRule, epochs: Optional[int]) -> Iterator[StepSlice]:
    """The steps from a position to the end of the last epoch; None: there is no last one.

    What is left over after the last epoch is filled up with the first samples of the one that would follow.
    """
    check(total, position, rule)
    if epochs is None or position.epoch < epochs:
        position = settled(total, position, rule)
    while epochs is None or position.epoch < epochs:
        size = rule.size(pending(total, position))
        after = settled(total, moved(total, position, size), rule)
        yield StepSlice(position, size, after)
        position = after
    while position.tail is not None:
        after = moved(total, position, rule.world)
        yield StepSlice(position, rule.world, after)
        position = after


def count(total: int, position: Position, rule: SharingRule, epochs: int) -> Optional[int]:
    """How many steps `cuts` has, without making them; None for more epochs than are worth the counting."""
    if position.epoch >= epochs or epochs - position.epoch > _MOST_EPOCHS:
        return None
    steps, left = 0, pending(total, position)
    for _ in range(position.epoch, epochs):
        full = max(0, (left - rule.world) // (rule.world * rule.batch))
        left -= full * rule.world * rule.batch
        last = rule.size(left)
        steps += full + (last > 0)
        left -= last
        # What makes no step opens the next epoch, or is left out.
        left = total + (0 if rule.drop_last else left)
    return steps + -(-(left - total) // rule.world)


def check(total: int, position: Position, rule: SharingRule) -> None:
    """Rejects data of which not every rank can have a sample in each step."""
    least = rule.world * rule.batch if rule.drop_last else rule.world
    if total == 0:
        raise Complaint("the data is empty: it has no samples")
    if total < rule.world:
        raise Complaint(
            f"there are {rule.world} ranks and {_counted(total)}, and each rank needs one in each step",
            "start fewer workers, or use more data",
        )
    if total < least:
        raise Complaint(
            f"a step takes {least} samples ({rule.batch} for each rank), and there are only {total}",
            "lower batch_size, or leave out drop_last=True",
        )
    if position.world:
        raise Complaint(
            "the checkpoint was saved with a loader that kept its own position",
            "use the kind of loader that the run was started with, or start a new run",
        )
    reached = position.at if position.tail is None else position.tail[1]
    if reached > total:
        raise Complaint(
            f"the checkpoint stands at sample {reached} of an epoch, and now there are {_counted(total)}",
            "use the data that the run was started with, or start a new run",
        )


def pending(total: int, position: Position) -> int:
    """How many samples there are from a position to the end of its epoch, with the tail."""
    waiting = total - position.tail[1] if position.tail is not None else 0
    return waiting + total - position.at


def moved(total: int, position: Position, size: int) -> Position:
    """The position some samples later."""
    if position.tail is None:
        return Position(position.epoch, position.at + size)
    epoch, start = position.tail
    waiting = total - start
    if size < waiting:
        return replace(position, tail=(epoch, start + size))
    return Position(position.epoch, position.at + size - waiting)


def settled(total: int, position: Position, rule: SharingRule) -> Position:
    """The same position, in the next epoch if what is left of this one makes no step."""
    left = pending(total, position)
    if rule.size(left):
        return position
    if left == 0 or rule.drop_last:
        return Position(position.epoch + 1)
    return Position(position.epoch + 1, 0, (position.epoch, position.at))


class EpochOrders:
    """The orders of all epochs, of which the last two are kept."""

    def __init__(self, total: int, seed: int, shuffle: bool) -> None:
        self._total = total
        self._seed = seed
        self._shuffle = shuffle
        self._kept: List[Tuple[int, Sequence[int]]] = []

    def of(self, epoch: int) -> Sequence[int]:
        """The order of an epoch."""
        if not self._shuffle:
            return range(self._total)
        for known, order in self._kept:
            if known == epoch:
                return order
        order = permutation(self._total, self._seed, epoch)
        self._kept = [*self._kept[-1:], (epoch, order)]
        return order

    def taken(self, cut: StepSlice, rank: int, world: int) -> List[int]:
        """The samples that a rank takes in a step."""
        tail, own = cut.share(self._total, rank, world)
        found = list(self.of(cut.before.epoch)[own.start : own.stop : world])
        if tail and cut.before.tail is not None:
            return [*self.of(cut.before.tail[0])[tail.start : tail.stop : world], *found]
        return found


def _counted(total: int) -> str:
    return "1 sample" if total == 1 else f"{total} samples"
