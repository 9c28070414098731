"""Decides whether a running job has been silent for so long that its user should be told. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

LEAST = 60.0
"""Seconds of silence that no user needs to be told of."""
_TIMES = 10.0
"""Usual pauses, and how many of the longest, that a job may be silent."""
_LONGEST_TIMES = 3.0
_ENOUGH = 5
"""Signs of progress that make a pace."""


def silence(steps: Sequence[float], lines: Sequence[float], now: float) -> float | None:
    """Seconds without a sign of progress, if that is long for this job; None if there is nothing to say.

    `steps` are the times at which ranks last reported, `lines` those at which they last printed, in the
    present attempt. What a job prints before it trains is no pace, so lines count once they came for a while.
    """
    if not steps and not lines:
        return None
    quiet = now - max((*steps, *lines))
    usual = _patience(steps) if len(steps) >= _ENOUGH else None
    if usual is None and len(lines) >= _ENOUGH and max(lines) - min(lines) >= LEAST:
        usual = _patience(lines)
    return quiet if usual is not None and quiet > usual else None


def _patience(moments: Sequence[float]) -> float:
    ordered = sorted(moments)
    pauses = [after - before for before, after in pairwise(ordered)]
    return max(LEAST, _TIMES * median(pauses), _LONGEST_TIMES * max(pauses))
