"""Times that a clock cannot have shown yet: a status from before the clock was set back is brought up to it.

Back-offs, deadlines and times to live are times of day in the status, because a status outlives processes and
machines. When the clock is set back they lie further away than they can: a wait never has longer to go than
it lasts as a whole. What they are changed to is recorded with the status, or the wait would begin anew at
each look.
"""

from __future__ import annotations

from msgspec.structs import replace

from bireme.core import backoff
from bireme.model.status import Retry, Status

SLACK = 60.0
"""Seconds by which the clocks of two operators, or of a machine and its time server, may differ."""


def settled(status: Status, now: float) -> Status:
    """The status as the clock that shows `now` could have recorded it."""
    retries = {name: _retry(retry, now) for name, retry in status.retries.items()}
    started, completed = _past(status.started, now), _past(status.completed, now)
    if (retries, started, completed) == (status.retries, status.started, status.completed):
        return status
    return replace(status, retries=retries, started=started, completed=completed)


def _retry(retry: Retry, now: float) -> Retry:
    latest = now + backoff.longest(retry.failures)
    return replace(retry, not_before=latest) if retry.not_before > latest else retry


def _past(time: float | None, now: float) -> float | None:
    return now if time is not None and time > now + SLACK else time
