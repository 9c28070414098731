"""Reports an error that is our fault: its traceback goes to a file, a sentence to the user."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from bireme import __version__
from bireme.runs.home import place

_ENV = "--env"


def kept(error: Exception) -> str:
    """Writes down everything that helps to mend it, and returns what the user is told."""
    words, secrets = without_values(sys.argv)
    details = _hidden("".join(traceback.format_exception(error)), secrets)
    said = _hidden(str(error).partition("\n")[0], secrets)
    summary = f"this is a bug in Bireme: {type(error).__name__}" + (f": {said}" if said else "")
    name = f"bug-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    finds: tuple[Callable[[], Path], ...] = (_bugs_folder, lambda: Path(tempfile.gettempdir()))
    for find in finds:
        try:
            # Both ask for the working folder, which may be gone.
            folder = find()
            folder.mkdir(parents=True, exist_ok=True)
            text = f"bireme {__version__}\nPython {sys.version}\n{words}\n\n{details}"
            # A new file that nobody else may read, whatever the umask, and never through another's link.
            file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(file, "w", encoding="utf-8", errors="replace") as report:
                report.write(text)
        except OSError:
            continue
        return f"{summary}\nPlease report it with {folder / name}. Jobs that run are not affected."
    return f"{summary}\nPlease report it with this:\n{details}"


def without_values(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words of a command line without the values of variables, which may be secrets; and those values."""
    words: list[str] = []
    secrets: list[str] = []
    for word in argv:
        option, value = ("", word) if words[-1:] == [_ENV] else (f"{_ENV}=", word.removeprefix(f"{_ENV}="))
        if option and value == word:
            words.append(word)
            continue
        name, _, secret = value.partition("=")
        secrets.append(secret)
        words.append(f"{option}{name}=...")
    # A shorter one is no secret, and would be found in every line of a traceback.
    return words, [one for one in secrets if len(one) > 3]


def _hidden(text: str, secrets: Sequence[str]) -> str:
    # The longest first: one may be part of another.
    for one in sorted(secrets, key=len, reverse=True):
        text = text.replace(one, "...")
    return text


def _bugs_folder() -> Path:
    return place(os.environ) / "bugs"
