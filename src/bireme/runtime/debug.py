"""How does `breakpoint()` reach the person at the terminal, although a rank's output goes to a log."""

from __future__ import annotations

import os
import sys


def set_trace() -> None:
    """What PYTHONBREAKPOINT names: a debugger on the terminal that BIREME_TERMINAL names."""
    import pdb

    frame = sys._getframe(1)
    path = os.environ.get("BIREME_TERMINAL", "")
    try:
        # Twice, because a terminal cannot seek; open until the process ends, as the debugger is.
        source = open(path, encoding="utf-8") if path else None  # noqa: SIM115
        target = open(path, "w", buffering=1, encoding="utf-8") if path else None  # noqa: SIM115
    except OSError:
        source = target = None
    if source is None or target is None:
        pdb.Pdb().set_trace(frame)
        return
    sys.stdout.flush()
    debugger = pdb.Pdb(stdin=source, stdout=target)
    # Pdb reads with input() unless it is told to use the stream that it was given.
    debugger.use_rawinput = False
    debugger.set_trace(frame)
