"""Describes the other end of our streams: a terminal, its width and colours, or a pipe."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

_WIDTH = 100
"""Columns to write for where the terminal does not say."""


@dataclass(frozen=True)
class Terminal:
    """The standard streams that are terminals, and whether to write in colour."""

    stdin: bool
    stdout: bool
    stderr: bool
    colour: bool

    @property
    def is_interactive(self) -> bool:
        """Whether a person may be looking or typing."""
        return self.stdin or self.stdout or self.stderr


def this_terminal(environ: Mapping[str, str] = os.environ) -> Terminal:
    stdout = _is_terminal(sys.stdout)
    wanted = not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    return Terminal(_is_terminal(sys.stdin), stdout, _is_terminal(sys.stderr), stdout and wanted)


def columns() -> int:
    """The present width of the terminal."""
    return max(20, shutil.get_terminal_size((_WIDTH, 24)).columns)


def terminal_name() -> str:
    """The device behind standard input, such as /dev/pts/3; an empty text if there is none."""
    try:
        return os.ttyname(0)
    except OSError:
        return ""


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # it is closed
        return False
