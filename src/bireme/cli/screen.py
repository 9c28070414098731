"""Lets lines of ranks, our own words and one status line share a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from bireme.cli.render import text

_ERASE = "\r\x1b[2K"
_MARGIN = 3
"""Columns that stay free: the terminal writes `^C` after the line, and what wraps is not erased."""


class TextOutput(Protocol):
    """A stream that text is written to."""

    def write(self, text: str, /) -> object: ...
    def flush(self) -> None: ...


class Screen:
    """Writes what ranks print to `out` and our own words to `err`; the last line of `err` may be a status."""

    def __init__(
        self,
        out: TextOutput,
        err: TextOutput,
        *,
        live: bool,
        shared: bool,
        columns: Callable[[], int],
        prompts: bool = False,
    ) -> None:
        """`live` allows a status line, and `prompts` lines without an end, where there is no status line.

        `shared` says that both streams end on the same terminal.
        """
        self._out = out
        self._err = err
        self._live = live
        self._shared = shared
        self._columns = columns
        self._shown = ""
        self._prompts = prompts
        self._prompted = ""
        self._rewrites = False

    @property
    def shows_prompts(self) -> bool:
        """Whether unfinished lines are shown."""
        return self._prompts

    @property
    def is_live(self) -> bool:
        """Whether there is a status line at all."""
        return self._live

    def lines(self, lines: Sequence[str]) -> None:
        """Writes lines of ranks, above the status line; they are written as they are."""
        if not lines:
            return
        before = self._shown
        if self._shared:
            self._erase()
        self._out.write("\n".join([self._continued(lines[0]), *lines[1:]]) + "\n")
        self._out.flush()
        self._draw(before)

    def prompt(self, line: str) -> None:
        """Shows an unfinished line as far as it is new; one that was rewritten, as a bar is, is replaced."""
        if not line:
            self._prompted, self._rewrites = "", False  # it has ended, and is printed as a line
            return
        self._rewrites = self._rewrites or not line.startswith(self._prompted)
        if self._rewrites:
            # A bar that took two rows of the terminal would leave one of them behind at each step.
            line = text.cut(text.plain(line), self._columns() - 1)
        if line != self._prompted:
            self._out.write(self._continued(line))
            self._out.flush()
            self._prompted = line

    def say(self, words: str) -> None:
        """Writes our own words, above the status line."""
        before = self._shown
        self._erase()
        if self._prompted:
            self._err.write("\n")
            self._prompted = ""
        self._err.write(f"{text.safe(words)}\n")
        self._err.flush()
        self._draw(before)

    def status(self, words: str) -> None:
        """Replaces the status line; nothing is written if it says the same."""
        words = text.cut(text.plain(words), self._columns() - _MARGIN)
        if words != self._shown:
            self._draw(words)

    def clear(self) -> None:
        """Takes the status line away."""
        self._erase()
        self._err.flush()

    def _continued(self, line: str) -> str:
        """The rest of a line after the part of it that is shown already."""
        shown, self._prompted = self._prompted, ""
        if line.startswith(shown):
            return line[len(shown) :]
        return f"{_ERASE}{line}"

    def _draw(self, words: str) -> None:
        if self._live and words:
            self._err.write(f"{_ERASE}{words}")
            self._err.flush()
            self._shown = words

    def _erase(self) -> None:
        if self._shown:
            self._err.write(_ERASE)
            self._err.flush()
            self._shown = ""
