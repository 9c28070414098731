"""Measures how far a job is: its step, of how many, how fast, and the number that people watch. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

TOTAL = "total_steps"
"""The parameter that says how many steps a run will have; `run.steps` records it where it can be known."""
MAIN = "loss"
WINDOW = 60.0
"""Seconds over which the rate is measured: long enough to be steady, short enough to tell a slowdown."""

_LARGEST_TOTAL = 2**63 - 1
_WORDS = re.compile(r"[^a-z0-9]+")


class Point(Struct, frozen=True):
    """Numbers that were reported at a step."""

    step: int
    time: float
    values: Mapping[str, float]


class Progress(Struct, frozen=True, kw_only=True):
    """The progress of a job, as its ranks reported it."""

    step: int
    total: int | None = None
    """How many steps there will be; None if the script did not say."""
    rate: float | None = None
    """Steps per second, lately; None if too little was reported."""
    metric: str
    value: float | None
    """Of the metric at that step; None if it was not a finite number."""
    reported: float
    """When that was."""

    @property
    def done(self) -> int:
        """Steps that are behind it: the first one is step 0 for some scripts and step 1 for others."""
        return self.step + 1 if self.total is None else min(self.step + 1, self.total)

    @property
    def share(self) -> float | None:
        """The part of the whole that is done, from 0 to 1."""
        return self.done / self.total if self.total else None

    @property
    def left(self) -> float | None:
        """Seconds until the last step at this rate."""
        if self.total is None or not self.rate:
            return None
        return (self.total - self.done) / self.rate


def measured(points: Sequence[Point], total: object = None) -> Progress | None:
    """Sums up the latest points of one rank, the oldest first; None if there are none."""
    metric = main_metric(name for point in points for name in point.values)
    own = [point for point in points if metric in point.values]
    if not own:
        return None
    last = own[-1]
    value = last.values[metric]
    return Progress(
        step=last.step,
        total=_total(total),
        rate=_rate(own),
        metric=metric,
        value=value if math.isfinite(value) else None,
        reported=last.time,
    )


def main_metric(names: Iterable[str]) -> str:
    """The number that people watch: `loss`, else the first that is some loss, else the first of all."""
    found = list(dict.fromkeys(names))
    if MAIN in found:
        return MAIN
    losses = (name for name in found if MAIN in _WORDS.split(name.lower()))
    return next(losses, found[0] if found else "")


def _rate(points: Sequence[Point]) -> float | None:
    """Steps per second within the window; a step that went back belongs to an earlier start of the rank."""
    last = points[-1]
    first = last
    for point in reversed(points[:-1]):
        if point.step >= first.step or point.time > first.time or last.time - point.time > WINDOW:
            break
        first = point
    took = last.time - first.time
    return (last.step - first.step) / took if took > 0 else None


def _total(given: object) -> int | None:
    """The number that a parameter holds; scripts and hostile logs may have put anything there."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    return int(given) if math.isfinite(given) and 0 < given <= _LARGEST_TOTAL else None
