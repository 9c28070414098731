"""Reads what ranks leave in the termination logs of their pods, where any process may write anything."""

from __future__ import annotations

import re

from msgspec.structs import replace

from bireme.model.replicas import Told
from bireme.runs.rank_reports import RankReport, ReportedError

_REPORT = re.compile(
    r"bireme-report asked=(?P<asked>[01])(?: trainer=(?P<trainer>[a-z]{1,20}))?"
    r"(?: time=(?P<time>[0-9]{1,12}(?:\.[0-9]{1,9})?))?"
    r"(?: step=(?P<step>[0-9]{1,18}))?(?: saved=(?P<saved>[0-9]{1,18}))?"
    r"(?: status=(?P<status>-?[0-9]{1,10}))?(?: type=(?P<type>[A-Za-z_<][A-Za-z0-9_.<>]{0,199}))?"
    r"(?: (?P<lost>lost)| place=(?P<place>[^\n]*))?\n(?P<text>.*)",
    re.DOTALL,
)
_CHAINED = re.compile(r"[A-Za-z_][\w.]*(?:: .*)?")


def report(message: str) -> RankReport | None:
    """Reads the last words of a rank, as the runtime writes them."""
    words = _REPORT.fullmatch(message)
    if words is None:
        return None
    asked, text = words["asked"] == "1", words["text"]
    if words["time"] is None:
        return RankReport(asked, lost=text.strip() if words["lost"] else "", trainer=words["trainer"] or "")
    kind, said = _error(text, words["type"])
    place = "?" if words["place"] is None else words["place"]
    status = None if words["status"] is None else int(words["status"])
    return RankReport(asked, ReportedError(kind, said, text, float(words["time"]), place, status))


def told(message: str) -> Told:
    """What a rank told of its end and of how far it had come."""
    words = _REPORT.fullmatch(message)
    found = report(message)
    if words is None or found is None:
        return Told()
    step, saved = (-1 if words[word] is None else int(words[word]) for word in ("step", "saved"))
    if found.error is None:
        return Told(step=step, saved=saved, lost=found.lost)
    return replace(found.error.told, step=step, saved=saved)


def _error(text: str, type: str | None) -> tuple[str, str]:
    """The type of an error and its message; the text is for people, and its lines may say anything."""
    lines = [line for line in text.splitlines() if line.strip()]
    if type is None:  # an earlier version does not tell it
        last = next(
            (line for line in reversed(lines) if _CHAINED.fullmatch(line)), lines[-1] if lines else ""
        )
        kind, _, said = last.partition(": ")
        return kind, said
    # The error that ended the script is the last of a chain, and its message goes on to the end.
    begin = max((at for at, line in enumerate(lines) if line.startswith(f"{type}: ")), default=None)
    if begin is not None:
        return type, "\n".join([lines[begin].partition(": ")[2], *lines[begin + 1 :]])
    is_bare = type in lines
    return type, "" if is_bare or not lines else lines[-1]


def without(message: str) -> str:
    """What a person wrote: a message without the line that the runtime puts first."""
    head, _, rest = message.partition("\n")
    return rest if head.startswith("bireme-report ") else message


def error_line(text: str) -> bool:
    """Whether a line is the last one of a traceback."""
    return _CHAINED.fullmatch(text) is not None
