"""Chooses few points that still show the course of a run, however long it takes. Pure.

What goes through a log must not fill it. The longer a run, the longer the pauses between two portions and the
fewer bytes in one: a day of training is a few megabytes, whatever is reported, and a curve keeps its shape.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, Tuple

from .record_format import Scalars, Text

SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
_SHARE = 500
"""Before it is at its longest, a pause is this part of the time so far: so fine is the grain of the whole."""
_BYTES = 2048
"""Of a portion, while pauses still grow."""
BYTES_OF_THE_PAST = 1 << 16
"""Of what was before, which is told once."""
_LONGEST_STRETCH = 20.0
MOST_TEXTS = 5
"""Of a name in one portion."""


def pause(elapsed: float, written: int = 0) -> float:
    """Seconds until the next portion, after a run of so many, if so many bytes were just written."""
    stretch = min(_LONGEST_STRETCH, max(1.0, written / budget(elapsed)))
    return stretch * min(LONGEST_PAUSE, max(SHORTEST_PAUSE, elapsed / _SHARE))


def budget(elapsed: float) -> int:
    """How many bytes a portion may have."""
    return int(_BYTES * min(1.0, LONGEST_PAUSE * _SHARE / max(elapsed, 1.0))) + 1


class Thinned:
    """Keeps some of the points that are added, evenly spread over all of them, and the last one.

    Points of the same names are of one kind, and each kind keeps as many as the others.
    """

    def __init__(self) -> None:
        self._kinds: Dict[Tuple[str, ...], _Kind] = {}
        self._texts: Dict[str, List[Text]] = {}

    def add(self, record: Scalars) -> None:
        names = tuple(record.values)
        kind = self._kinds.get(names)
        if kind is None:
            kind = self._kinds[names] = _Kind()
        kind.add(record)

    def add_text(self, record: Text) -> None:
        kept = self._texts.setdefault(record.name, [])
        kept.append(record)
        del kept[:-MOST_TEXTS]

    def points(self, room: int) -> List[Scalars]:
        """As many as fit into so many bytes, and at least one of each kind; in the order of their times."""
        # About how many bytes a point of each kind takes in a line.
        once = sum(30 + sum(len(name) + 26 for name in names) for names in self._kinds) or 1
        most = max(1, room // once)
        return sorted(
            (point for kind in self._kinds.values() for point in kind.spread(most)),
            key=lambda point: point.time,
        )

    def texts(self) -> Iterator[Text]:
        for kept in self._texts.values():
            yield from kept


class _Kind:
    """Every k-th point, k doubling as they become many."""

    MOST = 2048

    def __init__(self) -> None:
        self._kept: List[Scalars] = []
        self._every = 1
        self._count = 0
        self._last: List[Scalars] = []

    def add(self, point: Scalars) -> None:
        self._last = [point]
        self._count += 1
        if self._count % self._every == 0:
            self._kept.append(point)
            self._last = []
            if len(self._kept) > self.MOST:
                self._kept = self._kept[1::2]
                self._every *= 2

    def spread(self, most: int) -> Iterator[Scalars]:
        points = self._kept + self._last
        count = len(points)
        chosen = range(count) if count <= most else [(n + 1) * count // most - 1 for n in range(most)]
        return (points[index] for index in chosen)
