"""Decides at which steps a checkpoint is saved; all ranks choose the same ones without talking."""

from __future__ import annotations

import operator
import re
from typing import Any, Callable, NamedTuple, Optional, Union

from .complaints import Complaint
from .step_agreement import AHEAD, AgreementPage

_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_DUE, _LAST = 0, 1
"""The slots of the page that the ranks share."""

Every = Union[int, str]


class Interval(NamedTuple):
    """Every so many steps, or every so many seconds; the other is 0."""

    steps: int = 0
    seconds: float = 0.0


def interval(every: Every) -> Interval:
    """Reads `100` (steps), `"30s"`, `"5m"` or `"1h"`."""
    if isinstance(every, int) and every > 0:
        return Interval(steps=every)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|m|min|h)\s*", every) if isinstance(every, str) else None
    if found is None or float(found.group(1)) <= 0:
        raise Complaint(
            f"`every` is {every!r}, which is neither a number of steps nor a time",
            'write every=100 for steps, or every="30s", "5m", "1h"',
        )
    return Interval(seconds=float(found.group(1)) * _SECONDS[found.group(2)])


def whole(step: Any) -> int:  # Any: Python's number, or one of a library
    """The number of a step; a Complaint if it is none."""
    try:
        number = operator.index(step)
    except TypeError:
        number = -1
    if number < 0:
        raise Complaint(f"{step!r} is not the number of a step", "count them from 0: 0, 1, 2")
    return number


class SaveSchedule:
    """Says of each step whether it is saved, and whether it is the last."""

    def __init__(
        self,
        wanted: Interval,
        rank: int,
        world_size: int,
        page: Optional[AgreementPage],
        clock: Callable[[], float],
    ) -> None:
        if wanted.seconds and world_size > 1 and page is None:
            raise Complaint(
                "ranks on several machines cannot agree on when to save by time",
                "give the interval in steps: bireme.init(every=100)",
            )
        self._wanted, self._rank, self._alone, self._page = wanted, rank, world_size == 1, page
        self._clock = clock
        self._began = self._saved_at = clock()
        self._leaving = False
        self._offered = self._done = -1

    @property
    def can_leave(self) -> bool:
        """Whether the ranks can agree on a last step."""
        return self._alone or self._page is not None

    def leave(self) -> None:
        """The process was asked to end: there is one more step to save. Safe in a signal handler."""
        self._leaving = True

    @property
    def is_leaving(self) -> bool:
        return self._leaving

    def is_last(self, step: int) -> bool:
        """Whether this step is saved because all ranks end after it."""
        if self._page is None:
            return self._leaving and self._alone
        agreed = self._page.read(_LAST)
        # A rank that was restarted after the others were asked to end was not asked: an older entry is not
        # for it.
        if agreed is not None and agreed.written >= self._began:
            return step >= agreed.step
        if not self._leaving:
            return False
        last = step if self._alone else step + AHEAD
        self._page.write(_LAST, last, self._clock())
        return step >= last

    def is_due(self, step: int) -> bool:
        """Whether this step is saved because the interval is over."""
        if self._wanted.steps:
            # Not every step need be offered: the first one after the interval is saved.
            before, self._offered = self._offered, step
            return (step + 1) // self._wanted.steps > (before + 1) // self._wanted.steps
        if self._alone or self._page is None:
            return self._is_time()
        agreed = self._page.read(_DUE)
        is_pending = agreed is not None and agreed.written >= self._began and agreed.step != self._done
        if agreed is not None and is_pending:
            if step >= agreed.step:
                self._done = agreed.step
                return True
        elif self._rank == 0 and self._is_time():
            # Only rank 0 proposes, and only when the last proposal is done: a rank that is behind still has
            # to find that one on the page. AHEAD keeps the step in the future of every rank.
            self._page.write(_DUE, step + AHEAD, self._clock())
            self._saved_at = self._clock()
        return False

    def continue_after(self, step: int) -> None:
        """The run was restored from a checkpoint of this step."""
        self._offered = step

    def saved(self) -> None:
        self._saved_at = self._clock()

    def _is_time(self) -> bool:
        return self._clock() - self._saved_at >= self._wanted.seconds
