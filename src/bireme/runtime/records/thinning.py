"""How few points still tell the story of a run, however long it takes. Pure.

What goes through a log must not fill it. The pauses between two portions grow with the run, and a portion has
so many points at most: a day of training is a few megabytes, and a curve keeps its shape.
"""

from __future__ import annotations

from typing import Dict, List, Sequence, Tuple

from .layout import Scalars

SHORTEST_PAUSE = 1.0
_SHARE = 500
"""A pause is this part of the time so far: so fine is the grain of the whole."""
MOST_AT_ONCE = 30
MOST_OF_THE_PAST = 1000
"""Points of the same names in one portion; and in the first one, which holds what was before."""


def pause(elapsed: float) -> float:
    """Seconds until the next portion, after a run of so many."""
    return max(SHORTEST_PAUSE, elapsed / _SHARE)


def thinned(points: Sequence[Scalars], most: int) -> List[Scalars]:
    """At most so many points of each set of names, evenly spread and in their order, with the last one."""
    by_names: Dict[Tuple[str, ...], List[int]] = {}
    for index, point in enumerate(points):
        by_names.setdefault(tuple(point.values), []).append(index)
    chosen = [each[place] for each in by_names.values() for place in _spread(len(each), most)]
    return [points[index] for index in sorted(chosen)]


def _spread(count: int, most: int) -> Sequence[int]:
    if count <= most:
        return range(count)
    return [(number + 1) * count // most - 1 for number in range(most)]
