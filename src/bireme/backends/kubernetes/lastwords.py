"""What a rank of a script left in its pod's termination message when it ended. Pure."""

from __future__ import annotations

import re

from msgspec import Struct

_WORDS = re.compile(
    r"bireme-report asked=([01])(?: time=([0-9]{1,12}(?:\.[0-9]{1,9})?)|( lost))?\n(.*)", re.DOTALL
)


class LastWords(Struct, frozen=True):
    """The message, read."""

    asked: bool
    """Whether the script asked for its rank."""
    time: float | None = None
    """When an error ended it, if one did."""
    traceback: str = ""
    lost: str = ""
    """What it could not save, as a sentence without its subject."""


def read(message: str) -> LastWords | None:
    """Reads what the runtime writes; None for what others wrote."""
    told = _WORDS.fullmatch(message)
    if told is None:
        return None
    asked, at, lost, text = told.groups()
    if at is not None:
        return LastWords(asked == "1", float(at), text)
    return LastWords(asked == "1", lost=text.strip() if lost else "")
