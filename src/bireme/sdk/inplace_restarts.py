"""Which replicas had their program started again in place, and how that is said."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence

from bireme.model.job import Job
from bireme.model.replicas import Replica
from bireme.sdk import rank_names
from bireme.sdk.views import Again

_MOST = 3
"""Replicas that are told of one by one."""
_SIGNALS = frozenset(signal.Signals)


def of(job: Job, replicas: Iterable[Replica]) -> tuple[Again, ...]:
    """Those whose program was started again, or will be after its back-off."""
    return tuple(
        Again(rank_names.label(job, one.name), one.restarts, one.exit_code)
        for one in replicas
        if one.restarts and one.is_alive and not one.stopping
    )


def resting(job: Job, replicas: Iterable[Replica]) -> str:
    """Why nothing of a replica runs although it lives: it fell, and is in its back-off."""
    waiting = of(job, [one for one in replicas if not one.ready and one.exit_code is not None])
    if not waiting:
        return ""
    others = f" (and {len(waiting) - 1} more)" if len(waiting) > 1 else ""
    times = "once" if waiting[0].restarts == 1 else f"{waiting[0].restarts} times"
    return f"{waiting[0].label}{others} starts again after a pause: {_how(waiting[0])}, {times} so far"


def news(before: Sequence[Again], now: Sequence[Again]) -> list[str]:
    """What to say of the restarts since the last look; one line for many at once."""
    known = {one.label: one.restarts for one in before}
    fresh = [one for one in now if one.restarts > known.get(one.label, 0)]
    if len(fresh) > _MOST:
        return [f"{len(fresh)} replicas are restarted: {fresh[0].label} and others ({_how(fresh[0])})"]
    return [f"{one.label} is restarted: {_how(one)}{_time(one.restarts)}" for one in fresh]


def _how(one: Again) -> str:
    if one.exit_code is None:
        return "one of its containers had ended"
    number = one.exit_code - 128
    named = f" ({signal.Signals(number).name})" if number in _SIGNALS else ""
    return f"exit code {one.exit_code}{named}"


def _time(number: int) -> str:
    if number == 1:
        return ""
    end = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f" ({number}{end} time)"
