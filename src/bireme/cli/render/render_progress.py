"""Shows the progress of a job, in a cell of a list and in full. Pure."""

from __future__ import annotations

from bireme.cli.render import text
from bireme.sdk.views import Progress

STALE = 60.0
"""Seconds after which a number of a running job is shown with its age: it may be stuck."""
_SILENT = 20.0
"""Seconds, or steps, without a report after which the last rate says nothing any more."""
_LONGEST_NAME = 24


def cell(found: Progress | None, runs: bool, now: float) -> str:
    """For a list: `341/1000, 12.3/s, loss 0.231`."""
    if found is None:
        return ""
    where = f"step {found.step}" if found.total is None else f"{found.done}/{found.total}"
    rate = _present_rate(found, runs, now)
    speed = "" if rate is None else _rate(rate, "/s", " s/step")
    return ", ".join(part for part in (where, speed, _metric(found)) if part)


def facts(found: Progress | None, runs: bool, now: float) -> list[tuple[str, str]]:
    """For one job: how far it is, how fast, how long still, and its main metric."""
    if found is None:
        return []
    parts = [f"step {found.step}"]
    if found.share is not None:
        # Rounded down: all is done only when it is.
        parts = [f"{found.done} of {found.total} steps ({int(found.share * 100)} %)"]
    rate = _present_rate(found, runs, now)
    if rate is not None:
        parts.append(_rate(rate, " steps/s", " s per step"))
        if found.left is not None and found.left >= 1:
            parts.append(f"about {text.duration(found.left)} left")
    age = now - found.reported
    stale = f" (reported {text.duration(age)} ago)" if runs and age >= STALE else ""
    return [("progress", ", ".join(parts)), ("metric", f"{_metric(found)}{stale}")]


def _present_rate(found: Progress, runs: bool, now: float) -> float | None:
    """The present speed; a job that is stopped, or that should have reported long ago, has no speed."""
    if not runs or not found.rate:
        return None
    return found.rate if now - found.reported < max(_SILENT, _SILENT / found.rate) else None


def _metric(found: Progress) -> str:
    value = "not finite" if found.value is None else f"{found.value:.4g}"
    return f"{text.cut(text.plain(found.metric), _LONGEST_NAME)} {value}"


def _rate(rate: float, quick: str, slow: str) -> str:
    return f"{_number(rate)}{quick}" if rate >= 1 else f"{_number(1 / rate)}{slow}"


def _number(value: float) -> str:
    """Three significant digits, and no exponent."""
    return f"{value:.3g}" if value < 999.5 else str(int(float(f"{value:.3g}")))
