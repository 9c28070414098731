"""How long ranks wait for each other, and how often they look."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Iterator, Protocol

from .storage import ownership


@dataclass(frozen=True)
class Patience:
    """How many seconds rank 0 waits for the others, and they for it."""

    to_begin: float = 60.0
    to_end: float = 1800.0
    when_awaited: float = 5.0
    """For rank 0 to begin, once the loop of this rank has to wait for it; for anybody to do anything, once
    the script has failed."""
    after_absence: float = 1.0
    """For ranks that did not turn up the last time."""
    to_choose: float = 600.0
    """For rank 0 to say which checkpoint is restored, since it was last seen to look for one."""
    to_choose_nothing: float = 10.0
    """The same, where there is none to be seen, and where rank 0 may have no way to say it."""
    to_tell: float = 10.0
    """After which a rank that waits for that says so."""
    heartbeat: float = ownership.PERIOD
    silence: float = ownership.SILENCE
    """After which the owner of a place counts as dead."""


class Paced(Protocol):
    """A place, and how often it may be looked at: a bucket is asked over a network, and counts."""

    pause: float
    longest_pause: float


def pauses(place: Paced, limit: float) -> Iterator[float]:
    """The seconds since the first call, at growing intervals, until the limit has passed."""
    began, pause = time.monotonic(), place.pause
    while True:
        waited = time.monotonic() - began
        yield waited
        if waited > limit:
            return
        time.sleep(min(pause, max(0.001, limit - waited)))
        pause = min(pause * 1.5, place.longest_pause)
