"""Draws from a run's seed: the order of each epoch, and the random generators of code that reads data.

Only libraries that the script has imported are touched, and only their generators of the processor: those of
accelerators belong to the training loop.
"""

from __future__ import annotations

import hashlib
import math
import random
import sys
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Sequence,
    Tuple,
    TypeVar,
    Union,
    overload,
)

SHUFFLED_WHOLE = 8192
"""Up to this length an epoch's order is a list; beyond, each index is computed when it is needed."""

BLOCK = 4096
"""How many indices are computed at a time, if the script has numpy."""


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
    """A permutation computed index by index, so that ten million samples need neither a list nor a pause.

    An index is a row and a column of a rectangle. Four times, one of them is rotated by an amount that is
    drawn for the other. Each rotation can be undone, so no two indices meet (a Feistel network). The
    rectangle is a little larger than the permutation: an index that lands beyond its end is moved again until
    it is inside, which keeps the whole a permutation (cycle walking).
    """

    def __init__(self, length: int, shape: Tuple[int, int], moves: Tuple[List[int], ...]) -> None:
        self._length = length
        self._shape = shape
        self._moves = moves
        self._block: Tuple[range, List[int]] = (range(0), [])
        """Indices that were computed together, and what is there."""

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
        if not isinstance(place, slice):
            if not -self._length <= place < self._length:
                raise IndexError(place)
            return self._scattered([place % self._length])[0]
        places = range(*place.indices(self._length))
        numpy: Any = sys.modules.get("numpy")  # Any: imported by the script, never here
        if numpy is None or not places or places.step < 0:
            return self._scattered(places)
        # More is computed than is asked for, because that is cheaper: the next slice is asked for soon.
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
        return [index if index < length else self._scattered([index])[0] for index in found]


Item = TypeVar("Item")


def seed_generators(*parts: Union[int, str]) -> None:
    """Sets the global generators of Python, numpy and torch from the parts, each to numbers of its own."""
    random.seed(derived(*parts, "python"))
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed(derived(*parts, "numpy") % 2**32)
    torch = sys.modules.get("torch")
    if torch is not None:
        # Not torch.manual_seed: where CUDA is asleep, that notes each call for later, for ever.
        torch.default_generator.manual_seed(derived(*parts, "torch") % 2**63)


def with_own_generators(items: Iterator[Item]) -> Iterator[Item]:
    """Gives an iterator random generators of its own: what it draws or seeds changes nothing outside."""
    within = _captured()
    while True:
        outside = _captured()
        _put(within)
        try:
            item = next(items)
        except StopIteration:
            return
        finally:
            within = _captured()
            _put(outside)
        yield item


GeneratorState = Dict[str, Callable[[], None]]
"""How each library's generator is put back."""


def _captured() -> GeneratorState:
    python = random.getstate()
    state: GeneratorState = {"python": lambda: random.setstate(python)}
    numpy: Any = sys.modules.get("numpy.random")  # Any: imported by the script, never here
    if numpy is not None:
        of_numpy = numpy.get_state()
        state["numpy"] = lambda: numpy.set_state(of_numpy)
    torch: Any = sys.modules.get("torch")  # Any: as above
    if torch is not None:
        of_torch = torch.get_rng_state()
        state["torch"] = lambda: torch.set_rng_state(of_torch)
    return state


def _put(state: GeneratorState) -> None:
    for put_back in state.values():
        put_back()
