"""The clock that everything below an entry point is given, and times that it cannot have shown yet.

Back-offs and deadlines are times of day in the status, because a status outlives processes and machines. When
the clock is set back they lie further away than they can: a wait never has longer to go than it lasts as a
whole. What they are changed to is recorded with the status; otherwise the wait would begin anew each time.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from msgspec.structs import replace

from bireme.core.replicas import slow_start
from bireme.core.restarts import backoff
from bireme.model.status import RefusedStart, Retry, Status

Wait = TypeVar("Wait", Retry, RefusedStart)

SLACK = 60.0
"""Seconds by which the clocks of two operators, or of a machine and its time server, may differ."""


class Clock(Protocol):
    """Tells the time to what must not read it itself; the `time` module is the real one."""

    def time(self) -> float:
        """Seconds since 1970. They may be set back."""

    def monotonic(self) -> float:
        """Seconds since some moment. They only grow, and mean nothing to another process."""


def settled(status: Status, now: float) -> Status:
    """The status of a job that has not ended as the clock that shows `now` could have recorded it."""
    retries = {
        name: _clamped(retry, now + backoff.longest(retry.failures)) for name, retry in status.retries.items()
    }
    refusal = status.refusal and _clamped(status.refusal, now + slow_start.wait(status.refusal.failures))
    started = now if is_ahead(status.started, now) else status.started
    if (retries, refusal, started) == (status.retries, status.refusal, status.started):
        return status
    return replace(status, retries=retries, refusal=refusal, started=started)


def is_ahead(time: float | None, now: float) -> bool:
    """Whether something that has happened lies in the future: then the clock was set back since."""
    return time is not None and time > now + SLACK


def _clamped(wait: Wait, latest: float) -> Wait:
    return replace(wait, not_before=latest) if wait.not_before > latest else wait
