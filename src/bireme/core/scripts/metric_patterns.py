"""Finds numbers in the lines that a script prints, by the patterns of its manifest.

A pattern is a plain name, such as `loss`, or a regular expression with the groups `name` and `value` and
perhaps `step`. A plain name finds what people print: `loss: 0.3`, `loss=0.3`, `Loss at step 10: 0.3`,
`{"loss": 0.3}`; the step is taken from the same line if it has one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from bireme.model.job import METRICS_ANNOTATION, Job

LONGEST_LINE = 4096
"""Characters of a line that are looked at: a line without end must not take time without end."""

_PLAIN = re.compile(r"[\w./@%-]+(?: [\w./@%-]+)*")
_NUMBER = r"[-+]?(?>(?>\d+(?:,\d{3})*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|nan\b|inf(?:inity)?\b)(?!\w)"
_STEP_WORD = r"(?:global[ _-]?)?(?:step|iteration|iter)"
_STEP = re.compile(rf"(?<![\w.]){_STEP_WORD}[\"']?\s*[:=#]?\s*\[?(?P<step>\d+)", re.IGNORECASE)
_BETWEEN = (
    rf"[\"']?(?:\s*(?:,|\(|\[|at|after|in|@)?\s*{_STEP_WORD}\s*[:=#]?\s*(?P<step>\d+)\s*[\])]?)?"
    r"\s*(?:[:=]|is|\s)\s*"
)


class Pattern(Struct, frozen=True):
    """A pattern, ready to be used."""

    name: str
    """The name that it looks for; empty if the line says the name."""
    expression: re.Pattern[str]


class Picked(Struct, frozen=True):
    """A number that was found."""

    name: str
    value: float
    step: int | None = None
    """None where the line does not say."""


def compiled(text: str) -> Pattern:
    """Makes a pattern of what is written in a manifest; raises ValueError with what is wrong with it."""
    if _PLAIN.fullmatch(text):
        words = r"\s+".join(re.escape(word) for word in text.split())
        return Pattern(text, re.compile(rf"(?<![\w./-]){words}{_BETWEEN}(?P<value>{_NUMBER})", re.IGNORECASE))
    try:
        expression = re.compile(text)
    except re.error as error:
        raise ValueError(f"it is no regular expression: {error}") from error
    missing = [group for group in ("name", "value") if group not in expression.groupindex]
    if missing:
        groups = " and ".join(f"(?P<{group}>...)" for group in missing)
        raise ValueError(f"it has no group {groups}")
    return Pattern("", expression)


def written(job: Job) -> tuple[str, ...]:
    """The patterns of a job as they are written, one on each line of its annotation."""
    return split(job.annotations.get(METRICS_ANNOTATION, ""))


def split(annotation: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in annotation.splitlines() if line.strip())


def picked(patterns: Iterable[Pattern], line: str) -> tuple[Picked, ...]:
    """The numbers of a line; of two patterns that find the same name, the first one counts."""
    line = line[:LONGEST_LINE]
    found: dict[str, Picked] = {}
    for pattern in patterns:
        for match in pattern.expression.finditer(line):
            groups = match.groupdict()
            name = pattern.name or (groups["name"] or "").strip()
            value = _number(groups["value"])
            if not name or value is None:
                continue
            step = groups.get("step")
            if step is None and pattern.name and (elsewhere := _STEP.search(line)):
                step = elsewhere["step"]
            number = _number(step)
            if number is not None and not (number.is_integer() and 0 <= number < 2**63):
                number = None
            found.setdefault(name, Picked(name, value, None if number is None else int(number)))
    return tuple(found.values())


def _number(text: str | None) -> float | None:
    try:
        return float((text or "").replace(",", "").rstrip("%"))
    except ValueError:
        return None
