"""Reads durations such as `45s`, `2h30m` or `7d` as seconds."""

from __future__ import annotations

import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_SPAN = re.compile(rf"(?:{_PART.pattern})+")
_LONGEST = 40
_MOST_DAYS = 366
"""The largest bare number that is taken for days with the unit left out."""


def seconds(written: str) -> float:
    """Returns how many seconds are meant; a bare number counts seconds. Raises ValueError."""
    text = written.strip().lower().replace(" ", "")
    if re.fullmatch(r"[0-9]{1,12}(\.[0-9]+)?", text):
        return float(text)
    if len(text) > _LONGEST or not _SPAN.fullmatch(text):
        raise ValueError(f"{written!r} is not a duration; write it as 45s, 10m, 2h30m or 1d")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def with_unit(written: str) -> float:
    """The same where a slip deletes things, so that a number without a unit is refused. Raises ValueError."""
    found = seconds(written)
    number = written.strip()
    if found and not number[-1].isalpha():
        meant = f"{number}d" if found <= _MOST_DAYS else f"{number}s"
        raise ValueError(f"{number!r} has no unit, did you mean {meant}?")
    return found
