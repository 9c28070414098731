"""What time does a person mean: `10m`, `2h30m`, `2026-11-15T10:00`. Pure."""

from __future__ import annotations

import re
from datetime import datetime

from bireme import errors

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_SPAN = re.compile(rf"(?:{_PART.pattern})+")


def span(written: str, option: str) -> float:
    """Seconds of a duration; a bare number counts seconds."""
    text = written.strip().lower().replace(" ", "")
    if re.fullmatch(r"[0-9]{1,12}(\.[0-9]+)?", text):
        return float(text)
    if len(text) > 40 or not _SPAN.fullmatch(text):
        raise errors.BadInput(
            f"{option} {written!r} is not a duration", hint="write it as 45s, 10m, 2h30m or 1d"
        )
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def moment(written: str, now: float, option: str) -> float:
    """The time that is meant by how long ago it was, or by its date; a date without a zone is local."""
    text = written.strip()
    if re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        try:
            return datetime.fromisoformat(text).timestamp()
        except (ValueError, OverflowError, OSError):
            pass
    try:
        return now - span(text, option)
    except errors.BadInput:
        raise errors.BadInput(
            f"{option} {written!r} is neither a duration nor a time",
            hint="write it as 45s, 10m, 2h30m, or as 2026-01-31T12:00",
        ) from None
