"""Reads the times that people write: `10m`, `2h30m`, `2026-11-15T10:00`. Pure."""

from __future__ import annotations

import re
from datetime import datetime

from bireme import errors
from bireme.model import durations


def span(written: str, option: str) -> float:
    """Seconds of a duration; a bare number counts seconds."""
    try:
        return durations.seconds(written)
    except ValueError:
        raise errors.BadInput(
            f"{option} {written!r} is not a duration", hint="write it as 45s, 10m, 2h30m or 1d"
        ) from None


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
