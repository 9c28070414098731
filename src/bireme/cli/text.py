"""How is text fitted to a terminal: tables, widths, durations. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_GAP = "  "

COLOURS = ("36", "33", "35", "32", "34", "31")
"""Of the replicas' prefixes, as a terminal numbers them."""
_RESET = "\x1b[0m"


def plain(text: str) -> str:
    """The text without escape sequences and control characters, in one line."""
    clean = _ESCAPES.sub("", text)
    return "".join(letter if letter.isprintable() else " " for letter in clean)


def width(text: str) -> int:
    """How many columns a plain text takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(letter) for letter in text)


def cut(text: str, columns: int) -> str:
    """The text in at most so many columns; what is left out is marked."""
    if width(text) <= columns:
        return text
    kept, used = [], 1
    for letter in text:
        used += _columns(letter)
        if used > columns:
            break
        kept.append(letter)
    return "".join(kept).rstrip() + "…" if columns > 0 else ""


def coloured(text: str, code: str, colour: bool) -> str:
    return f"\x1b[{code}m{text}{_RESET}" if colour else text


def table(header: Sequence[str], rows: Sequence[Sequence[str]], columns: int | None) -> list[str]:
    """Rows below their header; the last column takes what is left, and is cut if there is a limit."""
    if not rows:
        return []
    cells = [list(header), *([plain(cell) for cell in row] for row in rows)]
    widths = [max(width(row[column]) for row in cells) for column in range(len(header) - 1)]
    lines = []
    for row in cells:
        padded = [cell + " " * (size - width(cell)) for cell, size in zip(row, widths, strict=False)]
        line = _GAP.join([*padded, row[-1]]).rstrip()
        lines.append(line if columns is None else cut(line, columns))
    return lines


def duration(seconds: float) -> str:
    """A span of time for people: `3.2 s`, `45 s`, `5 min 12 s`, `3 h 5 min`, `4 d 2 h`."""
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def age(seconds: float) -> str:
    """A span of time for a narrow column: `12s`, `5m`, `3h`, `4d`."""
    whole = int(max(0.0, seconds))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if whole >= 2 * size:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def clock(seconds: float) -> str:
    """A running span of time that does not jump in width: `0:12`, `1:02:03`."""
    minutes, rest = divmod(int(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def indented(lines: Sequence[str], by: str = "    ") -> list[str]:
    return [f"{by}{line}".rstrip() for line in lines]


def _columns(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1
