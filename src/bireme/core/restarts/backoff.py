"""Tells how long a restart waits after so many failures."""

from __future__ import annotations

FIRST = 1.0
LONGEST = 300.0
RESET = 600.0
"""Seconds of a healthy run after which earlier failures no longer count."""

CONTAINER_FIRST = 10.0
"""What a kubelet waits, so that a restart in place takes as long here as there."""


def replacement(failures: int) -> float:
    """Seconds until a replica or a gang that failed this often is replaced; the first time at once."""
    return _doubling(FIRST, failures)


def longest(failures: int) -> float:
    """Seconds that anything that failed this often waits at most: an action that failed waits a second."""
    return max(FIRST, replacement(failures))


def in_place(failures: int) -> float:
    """Seconds until a program that failed this often is restarted in its replica."""
    return _doubling(CONTAINER_FIRST, failures)


def _doubling(first: float, failures: int) -> float:
    if failures <= 1:
        return 0.0
    return min(LONGEST, first * 2.0 ** min(failures - 2, 30))
