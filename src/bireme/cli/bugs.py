"""What happens with an error that is our fault: its traceback goes to a file, a sentence to the user."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

from bireme import __version__
from bireme.runs.home import place


def kept(error: Exception) -> str:
    """Writes down everything that helps to mend it, and returns what the user is told."""
    details = "".join(traceback.format_exception(error))
    said = str(error).partition("\n")[0]
    summary = f"this is a bug in Bireme: {type(error).__name__}" + (f": {said}" if said else "")
    name = f"bug-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    for folder in (place(os.environ) / "bugs", Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(
                f"bireme {__version__}\nPython {sys.version}\n{sys.argv}\n\n{details}", errors="replace"
            )
        except OSError:
            continue
        return f"{summary}\nPlease report it with {folder / name}. Jobs that run are not affected."
    return f"{summary}\nPlease report it with this:\n{details}"
