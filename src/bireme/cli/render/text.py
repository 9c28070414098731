"""Fits text to a terminal: tables, widths, durations. Pure."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Sequence

_SEQUENCES = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # cursor, erasing, colours, modes
    r"|(?:\x1b[]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # titles, links
    r"|\x1b[ -/]*[0-~]"  # all others, such as a reset
)
_COLOUR = r"\x1b\[[0-9;:]*m"
# What turns the direction of writing is no control character, and yet shows a text as what it is not.
_CONTROLS = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
_UNSAFE = re.compile(f"({_COLOUR})|({_SEQUENCES})|{_CONTROLS}")
_JSON_UNSAFE = re.compile(r"[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_GAP = "  "
_LEAST = 24
"""Columns that the last column of a sheet needs, if it has so much to say."""
_LEAST_CELL = 12
"""Columns of a cell that is cut to keep a table whole."""
_NARROW = 72
"""Columns of a terminal below which no table is kept whole by force."""

COLOURS = ("36", "33", "35", "32", "34", "31")
"""Of the replicas' prefixes, as a terminal numbers them."""
_RESET = "\x1b[0m"


def safe(text: str) -> str:
    """The text without anything that commands a terminal; only line ends and tabs stay.

    Logs, events, the status of pods and the errors of an API server are written by others. A sequence in them
    could move the cursor over what we said, retitle the window, or offer a link that is none.
    """
    return _UNSAFE.sub(lambda found: "" if found[1] or found[2] else " ", text)


def log_line(text: str, *, colour: bool) -> str:
    """A line of a log for a terminal: safe, but a program's own colours are kept, up to the line's end."""
    if not colour:
        return safe(text)
    # In one pass: were sequences taken out first, what stood around one could become another.
    kept = _UNSAFE.sub(lambda found: found[1] or ("" if found[2] else " "), text)
    return kept if "\x1b" not in kept or kept.endswith(_RESET) else f"{kept}{_RESET}"


def safe_json(text: str) -> str:
    """The same value in JSON that commands no terminal: within its strings the rest is escaped already."""
    return _JSON_UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def plain(text: str) -> str:
    """The safe text in one line."""
    return "".join(letter if letter.isprintable() else " " for letter in safe(text))


def width(text: str) -> int:
    """The number of columns that a plain text takes."""
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


def sheet(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    columns: int | None,
    spare: Sequence[str] = (),
    *,
    regained: Sequence[str] = (),
    wraps: bool = False,
    keeps: bool = False,
) -> list[str]:
    """A table that fits: it does without `spare` columns, in that order, before its last one gets narrow.

    Where even so there is no room, each row is a paragraph of its own, in which there is room for the spare
    columns that are `regained`. The last column is cut, or wrapped. A list that `keeps` its header is cut
    further instead, its last column first, unless the terminal is very narrow.
    """
    cells = [[plain(cell) for cell in row] for row in rows]
    if columns is None or not rows:
        return table(header, cells, columns)
    head, every = list(header), cells
    # The last column needs room for its longest word, unless that is a path without end.
    last = [head[-1], *(row[-1] for row in cells)]
    longest = max(width(word) for cell in last for word in cell.split() or [""])
    needed = min(max(map(width, last)), max(_LEAST, min(longest, columns // 2)))
    for name in spare:
        if _fixed(head, cells) + needed <= columns:
            break
        if name in head[:-1]:
            at = head.index(name)
            head.pop(at)
            cells = [[*row[:at], *row[at + 1 :]] for row in cells]
    room = columns - _fixed(head, cells)
    if room < needed and keeps and columns >= _NARROW:
        first = max(width(row[0]) for row in cells) - max(0, _LEAST_CELL - room)
        squeezed = [[cut(row[0], max(_LEAST_CELL, first)), *row[1:]] for row in cells]
        return table(head, squeezed, columns)
    if room < needed:
        kept = [at for at, name in enumerate(header) if name in regained or name in head]
        rest = [[row[at] for at in kept] for row in every]
        return [line for row in rest for line in _paragraph(row, columns)]
    return _wrapped(head, cells, room) if wraps else table(head, cells, columns)


def hanging(label: str, words: str, columns: int | None) -> list[str]:
    """Words after a label, wrapped so that what follows stands below them.

    A word that is too long for that, such as a path, is left to the terminal: so it can be copied.
    """
    words = plain(words)
    indent = " " * width(label)
    longest = max((width(word) for word in words.split()), default=0)
    if (
        columns is None
        or len(indent) + min(width(words), longest) > columns
        or len(indent) + width(words) <= columns
    ):
        return [f"{label}{words}".rstrip()]
    return _filled(f"{label}{words}", columns, indent)


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


def _fixed(header: Sequence[str], cells: Sequence[Sequence[str]]) -> int:
    """The width of all columns but the last, with their gaps."""
    widest = (max(width(row[at]) for row in (header, *cells)) for at in range(len(header) - 1))
    return sum(size + len(_GAP) for size in widest)


def _wrapped(header: Sequence[str], cells: Sequence[Sequence[str]], room: int) -> list[str]:
    """Rows whose last cell continues below itself."""
    parts = [[row[-1]] if width(row[-1]) <= room else _filled(row[-1], room, "") for row in cells]
    spread = [
        [*(row[:-1] if number == 0 else [""] * (len(row) - 1)), part]
        for row, each in zip(cells, parts, strict=True)
        for number, part in enumerate(each)
    ]
    return table(header, spread, None)


def _paragraph(row: Sequence[str], columns: int) -> list[str]:
    """The cells of a row, as many on each line as it has room for; only one that is too long is broken."""
    *first, last = row
    lines: list[str] = []
    for cell in (cell for cell in first if cell not in ("", "-")):
        if lines and width(lines[-1]) + len(_GAP) + width(cell) <= columns:
            lines[-1] += _GAP + cell
        else:
            lines.append(_GAP + cell if lines else cell)
    if last:
        lines.append(_GAP + last)
    return [line for each in lines for line in _filled(each, columns, _GAP)]


def _filled(words: str, columns: int, indent: str) -> list[str]:
    return textwrap.wrap(
        words,
        max(columns, len(indent) + 1),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]


def _columns(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1
