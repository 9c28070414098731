"""What the ranks of scripts leave in the termination logs of their pods. Anybody may write anything there."""

from __future__ import annotations

import re

from bireme.model.replicas import Told
from bireme.runs.reports import Report, ReportedError

_REPORT = re.compile(
    r"bireme-report asked=([01])(?: trainer=([a-z]{1,20}))?(?: time=([0-9]{1,12}(?:\.[0-9]{1,9})?))?"
    r"(?: step=([0-9]{1,18}))?(?: saved=([0-9]{1,18}))?(?: (lost)| place=([^\n]*))?\n(.*)",
    re.DOTALL,
)
_CHAINED = re.compile(r"[A-Za-z_][\w.]*(?:: .*)?")


def report(message: str) -> Report | None:
    """Reads the last words of a rank, as the runtime writes them."""
    words = _REPORT.fullmatch(message)
    if words is None:
        return None
    asked, trainer, at, _, _, lost, place, text = words.groups()
    if at is None:
        return Report(asked == "1", lost=text.strip() if lost else "", trainer=trainer or "")
    lines = [line for line in text.splitlines() if line.strip()]
    last = next((line for line in reversed(lines) if _CHAINED.fullmatch(line)), lines[-1] if lines else "")
    kind, _, said = last.partition(": ")
    return Report(asked == "1", ReportedError(kind, said, text, float(at), "?" if place is None else place))


def told(message: str) -> Told:
    """What a rank told of its end and of how far it had come."""
    words = _REPORT.fullmatch(message)
    found = report(message)
    if words is None or found is None:
        return Told()
    step, saved = (-1 if number is None else int(number) for number in words.group(4, 5))
    if found.error is None:
        return Told(step=step, saved=saved, lost=found.lost)
    error = found.error.told
    return Told(error.type, error.message, error.place, error.time, step, saved)


def without(message: str) -> str:
    """What a person wrote: a message without the line that the runtime puts first."""
    head, _, rest = message.partition("\n")
    return rest if head.startswith("bireme-report ") else message


def error_line(text: str) -> bool:
    """Whether a line is the last one of a traceback."""
    return _CHAINED.fullmatch(text) is not None
