"""Selects ended runs to be deleted: those that a user asks for, or those beyond the limits. Pure.

Deleting cannot be taken back. So a user selects only what all of the given conditions agree on, and
what is deleted by itself has no checkpoints, because those may be the only copy of days of work.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


class EndedRun(Struct, frozen=True):
    """A run that has ended, and what it takes."""

    id: str
    ended: float
    size: int
    """Bytes on disk."""
    has_checkpoints: bool = False
    is_needed: bool = False
    """An active run was started from it, and may look into it again."""


class Selection(Struct, frozen=True):
    """The conditions that a user sets; a run is selected if it meets all of them."""

    older: float | None = None
    """Seconds since the end."""
    keep: int | None = None
    """So many of the newest are spared."""
    larger: int | None = None
    """Bytes."""


class Limits(Struct, frozen=True):
    """The limits of what is kept where no user asks; each counts by itself, and None is no limit."""

    age: float | None = None
    runs: int | None = None
    size: int | None = None

    def __bool__(self) -> bool:
        return self != Limits()


def selected(runs: Sequence[EndedRun], wish: Selection, now: float) -> tuple[EndedRun, ...]:
    """The runs that a user selects, the newest first."""
    spared = wish.keep or 0
    return tuple(
        run
        for run in _newest_first(runs)[spared:]
        if not run.is_needed
        and (wish.older is None or now - run.ended > wish.older)
        and (wish.larger is None or run.size > wish.larger)
    )


def beyond(runs: Sequence[EndedRun], limits: Limits, now: float) -> tuple[EndedRun, ...]:
    """The runs that exceed a limit, the newest first; never one with checkpoints, though it counts."""
    gone = exceeded(runs, limits, now)
    return tuple(run for run in _newest_first(runs) if run.id in gone)


def exceeded(runs: Sequence[EndedRun], limits: Limits, now: float) -> dict[str, tuple[str, ...]]:
    """The limits that each of these runs exceeds, by the run's id."""
    found, taken = {}, 0
    for number, run in enumerate(_newest_first(runs)):
        taken += run.size
        tests = {
            "age": limits.age is not None and now - run.ended > limits.age,
            "runs": limits.runs is not None and number >= limits.runs,
            "size": limits.size is not None and taken > limits.size,
        }
        if any(tests.values()) and not run.has_checkpoints and not run.is_needed:
            found[run.id] = tuple(name for name, is_beyond in tests.items() if is_beyond)
            taken -= run.size
    return found


def _newest_first(runs: Sequence[EndedRun]) -> list[EndedRun]:
    return sorted(runs, key=lambda run: (-run.ended, run.id))
