"""The log of a runner itself, `runner.log`: its standard error, with the time before each line."""

from __future__ import annotations

import os
import time
from contextlib import suppress


def say(text: str) -> None:
    """Add a line. On a full disk it is lost: what a runner says must never be what ends it."""
    line = f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {text}\n"
    with suppress(OSError):
        os.write(2, line.encode(errors="replace"))
