"""Carries records in the log of a pod: as lines with a mark, which are left out where the log is shown.

    ::bireme:: {"rank": 0, "attempt": 1, "start": 0, "role": "", "points": [[120, 1.7e9, {"loss": 0.3}]]}

A log is what everyone who may look at a job can read, while its pods run and after they ended, without a
server and without a volume. Scalars, texts and parameters travel so; histograms and images are too large.

Any program that prints to that log can print such a line too, so the reader takes it for hostile: each name
has a pattern, each number bounds, and what is beyond them is left out.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from typing import Any, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from .record_format import Params, Record, Scalars, Text

MARK = "::bireme:: "
LONGEST_LINE = 8192
"""A longer line is cut into pieces on its way."""
LONGEST_NAME = 250
"""Characters of the name of a value; one that is longer stays in the file of its rank."""
_LONGEST_READ = 8 * LONGEST_LINE
"""None of ours is longer, whatever its names are: JSON may write a letter as six."""
_LARGEST_RANK = 1 << 31
_LARGEST_STEP = 1 << 63
_LATEST = 1e11
"""Seconds since 1970: some thousand years."""
_DEEPEST = 5
"""Levels of lists within a parameter."""
_ROLE = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
"""A DNS label, which the roles of a job are."""
_LONGEST_TEXT = 2000
_MOST_NAMES = 50
_BEGINNING = '{"rank": '
_PREFIX = re.compile(r"^\[[\d,]+\]<std(?:out|err)>:\s*$")
"""What horovodrun and mpirun put before each line of a rank."""


class Reporter(NamedTuple):
    """The rank that reported something, and how often it was started before within its attempt."""

    rank: int
    attempt: int
    start: int
    role: str = ""
    """Of a process that does not train, such as an evaluator: its rank is counted within its role."""


def lines(reporter: Reporter, records: Iterable[Record]) -> Iterator[str]:
    """Writes records, as many on each line as it may hold; those that cannot travel are left out."""
    head = json.dumps(reporter._asdict())[:-1]
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
    """What a program printed itself, and what was echoed after it; each may be empty.

    A mark may come after the beginning of a line that the program has not ended, such as a progress bar, and
    after the prefix of a launcher. A program that prints the mark itself keeps its line.
    """
    own, _, echoed = line.partition(MARK)
    if not echoed.startswith(_BEGINNING) or not echoed.endswith("}"):
        return line, ""
    return _PREFIX.sub("", own), echoed


def read(echoed: str) -> Optional[Tuple[Reporter, List[Record]]]:
    """The records of a line; None for a line that is not ours, or of another version.

    Single records that are out of bounds are left out.
    """
    if len(echoed) > _LONGEST_READ:
        return None
    try:
        found = json.loads(echoed)
        rank, attempt, start = (_whole(found[name], _LARGEST_RANK) for name in ("rank", "attempt", "start"))
        role = found["role"]
        if role != "" and not (isinstance(role, str) and _ROLE.fullmatch(role)):
            return None
        records: List[Record] = []
        for key in ("points", "texts", "params"):
            for fields in _listed(found.get(key, [])):
                # A record that is out of bounds must not cost the others on its line. OverflowError: an
                # integer that no float can hold.
                with contextlib.suppress(ValueError, TypeError, AttributeError, OverflowError):
                    records.append(_record(key, _listed(fields)))
        return Reporter(rank, attempt, start, str(role)), records
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def is_name(given: Any) -> bool:
    """Whether something may name a value: what is not printable would reach a terminal, or a page."""
    return isinstance(given, str) and 0 < len(given) <= LONGEST_NAME and given.isprintable()


def _written(record: Record) -> Iterator[Tuple[str, str]]:
    if isinstance(record, Scalars):
        names = [name for name in record.values if len(name) <= LONGEST_NAME]
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


def _record(key: str, fields: List[Any]) -> Record:
    if key == "points":
        step, time, values = fields
        kept = {name: _number(value) for name, value in _named(values)}
        return Scalars(_whole(step, _LARGEST_STEP), _time(time), kept)
    if key == "texts":
        step, time, name, text = fields
        if not isinstance(text, str) or not is_name(name):
            raise ValueError
        return Text(_whole(step, _LARGEST_STEP), _time(time), name, text[:_LONGEST_TEXT])
    time, values = fields
    shallow = {name: value for name, value in _named(values) if _is_shallow(value, _DEEPEST)}
    if not shallow:
        raise ValueError
    return Params(_time(time), shallow)


def _named(values: Any) -> List[Tuple[str, Any]]:
    found = [(name, value) for name, value in values.items() if is_name(name)]
    if not found:
        raise ValueError
    return found


def _whole(given: Any, end: int) -> int:
    if type(given) is not int or not 0 <= given < end:  # a bool is an int, too
        raise ValueError
    return given


def _number(given: Any) -> float:
    if type(given) not in (int, float):
        raise ValueError
    return float(given)


def _time(given: Any) -> float:
    found = _number(given)
    if not math.isfinite(found) or not 0 <= found < _LATEST:
        raise ValueError
    return found


def _listed(given: Any) -> List[Any]:
    if not isinstance(given, list):
        raise ValueError
    return given


def _is_shallow(value: Any, levels: int) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return True
    return levels > 0 and all(_is_shallow(inner, levels - 1) for inner in value)
