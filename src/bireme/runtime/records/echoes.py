"""How do records travel in the log of a pod: as lines with a mark, which whoever shows the log leaves out.

    ::bireme:: {"rank": 0, "attempt": 1, "start": 0, "role": "", "points": [[120, 1.7e9, {"loss": 0.3}]]}

A log is what everyone who may look at a job can read, while its pods run and after they ended, without a
server and without a volume. Scalars, texts and parameters travel so; histograms and images are too large.
"""

from __future__ import annotations

import json
import re
from typing import Any, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from .layout import Params, Record, Scalars, Text

MARK = "::bireme:: "
LONGEST_LINE = 8192
"""A longer line is cut into pieces on its way."""
_LONGEST_TEXT = 2000
_MOST_NAMES = 50
_BEGINNING = '{"rank": '
_PREFIX = re.compile(r"^\[[\d,]+\]<std(?:out|err)>:\s*$")
"""What horovodrun and mpirun put before each line of a rank."""


class Who(NamedTuple):
    """By whom something was reported, and after how many starts within its attempt."""

    rank: int
    attempt: int
    start: int
    role: str = ""
    """Of one that does not train, such as an evaluator: its rank is counted among its like."""


def lines(who: Who, records: Iterable[Record]) -> Iterator[str]:
    """Writes records, as many on each line as it may hold; those that cannot travel are left out."""
    head = json.dumps(who._asdict())[:-1]
    assert head.startswith(_BEGINNING)
    line, kind = "", ""
    for record in records:
        for key, text in _written(record):
            if line and (key != kind or len(line) + len(text) > LONGEST_LINE):
                yield f"{line}]}}"
                line = ""
            line = f"{line}, {text}" if line else f'{MARK}{head}, "{key}": [{text}'
            kind = key
    if line:
        yield f"{line}]}}"


def taken_apart(line: str) -> Tuple[str, str]:
    """What a program printed itself, and what was echoed behind it; each may be empty.

    A mark may come after the beginning of a line that the program has not ended, such as a progress bar, and
    after the prefix of a launcher. A program that prints the mark itself keeps its line.
    """
    own, _, echoed = line.partition(MARK)
    if not echoed.startswith(_BEGINNING) or not echoed.endswith("}"):
        return line, ""
    return _PREFIX.sub("", own), echoed


def read(echoed: str) -> Optional[Tuple[Who, List[Record]]]:
    """The records of a line; None for what is none of ours, or of another version."""
    try:
        found = json.loads(echoed)
        who = Who(int(found["rank"]), int(found["attempt"]), int(found["start"]), str(found["role"]))
        return who, [*_records(found)]
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _written(record: Record) -> Iterator[Tuple[str, str]]:
    if isinstance(record, Scalars):
        names = list(record.values)
        for first in range(0, len(names), _MOST_NAMES):
            values = {name: record.values[name] for name in names[first : first + _MOST_NAMES]}
            yield "points", json.dumps([record.step, round(record.time, 3), values])
    elif isinstance(record, Text):
        told = record.text[:_LONGEST_TEXT]
        while len(json.dumps(told)) > 2 * _LONGEST_TEXT:
            told = told[: len(told) // 2]
        yield "texts", json.dumps([record.step, round(record.time, 3), record.name, told])
    elif isinstance(record, Params):
        # One at a time: together they may be too long for a line.
        for name, value in record.values.items():
            text = json.dumps([round(record.time, 3), {name: value}], default=str)
            if len(text) < LONGEST_LINE:
                yield "params", text


def _records(found: Any) -> Iterator[Record]:  # Any: what JSON holds
    for step, time, values in found.get("points", ()):
        yield Scalars(int(step), float(time), {str(name): float(value) for name, value in values.items()})
    for step, time, name, text in found.get("texts", ()):
        yield Text(int(step), float(time), str(name), str(text))
    for time, values in found.get("params", ()):
        yield Params(float(time), dict(values))
