"""In which order does an epoch go through the samples, and where in that order does a run stand."""

from __future__ import annotations

import hashlib
import math
import random
import sys
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union, overload

from ..script.complaints import Complaint

SHUFFLED_WHOLE = 8192
"""Up to this length an epoch's order is a list; beyond, each place in it is computed when it is needed."""

BLOCK = 4096
"""How many places are computed at a time, if the script has numpy."""


@dataclass(frozen=True)
class Position:
    """Where a run stands in its data: next comes the tail, if any, then the epoch's order from `at`."""

    epoch: int = 0
    at: int = 0
    """How many samples of the epoch's order have been handed out, over all ranks; 0 while there is a tail."""
    tail: Optional[Tuple[int, int]] = None
    """(epoch, from): samples of the epoch before that were too few for all ranks, and open this one."""
    inner: Any = None  # Any: a plain tree
    """What a loader, sampler or dataset that keeps its own position says of it."""
    world: int = 0
    """For how many ranks `inner` holds; 0: for any number."""

    @property
    def is_within_an_epoch(self) -> bool:
        """Whether the order of the epoch matters for what comes next."""
        return bool(self.at or self.tail or self.inner is not None)

    def state(self) -> Dict[str, Any]:  # Any: a plain tree
        """The position as a plain tree, for a checkpoint."""
        tail = None if self.tail is None else list(self.tail)
        return {"epoch": self.epoch, "at": self.at, "tail": tail, "inner": self.inner, "world": self.world}


def position(state: Mapping[str, Any]) -> Position:  # Any: a plain tree
    """Reads what `Position.state` gave."""
    try:
        tail = state.get("tail")
        return Position(
            epoch=int(state["epoch"]),
            at=int(state["at"]),
            tail=None if tail is None else (int(tail[0]), int(tail[1])),
            inner=state.get("inner"),
            world=int(state.get("world", 0)),
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise Complaint(f"this is not a position in the data: {state!r}") from error


def permutation(length: int, seed: int, epoch: int) -> Sequence[int]:
    """The shuffled order of an epoch: the same on every machine, another for each seed and epoch."""
    # Of all that `random` offers, only seeding with an integer and random() are promised never to change.
    draw = random.Random(derived(seed, "order", epoch)).random
    if length > SHUFFLED_WHOLE:
        return _Scattered.drawn(length, draw)
    order = list(range(length))
    for last in range(length - 1, 0, -1):
        other = int(draw() * (last + 1))
        order[last], order[other] = order[other], order[last]
    return order


def derived(*parts: Union[int, str]) -> int:
    """A number of 64 bits that differs whenever one of the parts does."""
    words = "/".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.sha256(words).digest()[:8], "big")


class _Scattered(Sequence[int]):
    """A permutation computed place by place, so that ten million samples need neither a list nor a pause.

    A place is a row and a column of a rectangle. Four times one is moved round by an amount that is drawn for
    the other, which can be undone, so no two places meet (a Feistel network). The rectangle is a little
    larger than the permutation: whoever lands beyond its end is moved again.
    """

    def __init__(self, length: int, shape: Tuple[int, int], moves: Tuple[List[int], ...]) -> None:
        self._length = length
        self._shape = shape
        self._moves = moves
        self._block: Tuple[range, List[int]] = (range(0), [])
        """Places that were computed together, and what is there."""

    @classmethod
    def drawn(cls, length: int, draw: Any) -> _Scattered:  # Any: random(), for which there is no short type
        rows = math.isqrt(length - 1) + 1
        columns = -(-length // rows)
        sizes = ((columns, rows), (rows, columns)) * 2
        moves = tuple([int(draw() * span) for _ in range(size)] for size, span in sizes)
        return cls(length, (rows, columns), moves)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> List[int]: ...
    def __getitem__(self, place: Union[int, slice]) -> Union[int, List[int]]:
        if isinstance(place, slice):
            return self._ahead(range(*place.indices(self._length)))
        if not -self._length <= place < self._length:
            raise IndexError(place)
        return self._scattered([place % self._length])[0]

    def _ahead(self, places: range) -> List[int]:
        """Computes more than is asked for where that is cheaper: who asks for a slice wants the next soon."""
        numpy: Any = sys.modules.get("numpy")  # Any: imported by the script, never here
        if numpy is None or not places or places.step < 0:
            return self._scattered(places)
        known, values = self._block
        if known.step != places.step or places[0] not in known or places[-1] not in known:
            known = range(places.start, self._length, places.step)[: max(len(places), BLOCK)]
            values = self._scattered_at_once(numpy, known)
            self._block = (known, values)
        first = known.index(places[0])
        return values[first : first + len(places)]

    def _scattered(self, places: Sequence[int]) -> List[int]:
        rows, columns = self._shape
        first, second, third, fourth = self._moves
        found = []
        for place in places:
            row, column = divmod(place, columns)
            row = (row + first[column]) % rows
            column = (column + second[row]) % columns
            row = (row + third[column]) % rows
            column = (column + fourth[row]) % columns
            found.append(row * columns + column)
        return self._inside(found)

    def _scattered_at_once(self, numpy: Any, places: range) -> List[int]:  # Any: the module
        """The same, ten times faster."""
        rows, columns = self._shape
        first, second, third, fourth = (numpy.array(moves, numpy.int64) for moves in self._moves)
        row, column = numpy.divmod(numpy.arange(places.start, places.stop, places.step, numpy.int64), columns)
        row = (row + first[column]) % rows
        column = (column + second[row]) % columns
        row = (row + third[column]) % rows
        column = (column + fourth[row]) % columns
        return self._inside((row * columns + column).tolist())

    def _inside(self, found: List[int]) -> List[int]:
        length = self._length
        if max(found, default=0) < length:
            return found
        return [one if one < length else self._scattered([one])[0] for one in found]
