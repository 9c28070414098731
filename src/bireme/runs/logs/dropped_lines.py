"""Counts the lines that a log could not take, and words the line of the log that says so."""

from __future__ import annotations

from bireme import errors

TRY_EVERY = 0.5
"""Seconds between two tries to write again, where the system says that there is room."""


class DroppedLines:
    """What one log has lost since it could last be written."""

    def __init__(self, error: errors.BiremeError, now: float) -> None:
        self.error = error
        self.lines = 0
        self.size = 0
        """Bytes of their text."""
        self._since = now
        self._tried = now
        self._cut: set[bytes] = set()
        """Streams whose present line has lost a piece: it is counted when it ends."""

    def count(self, entries: bytes, written: int) -> None:
        """Takes entries of which only so many bytes were written; one that was cut counts as lost."""
        end = 0
        # Not splitlines: a text may hold a `\r`, and what follows it is no entry.
        for entry in entries.removesuffix(b"\n").split(b"\n"):
            end += len(entry) + 1
            # Only its end-of-line did not fit, and the next entry begins with that.
            if end - 1 <= written:
                continue
            stream, tag, text = _parts(entry)
            self.size += len(text)
            if tag == b"F":
                self.lines += 1
                self._cut.discard(stream)
            else:
                self._cut.add(stream)

    def may_try(self, now: float) -> bool:
        """Says whether it is time to try again; a clock that was set back must not put that off."""
        if 0 <= now - self._tried < TRY_EVERY:
            return False
        self._tried = now
        return True

    def finish(self) -> int:
        """Counts lines of which a piece is lost, and returns how many lines are in all."""
        self.lines += len(self._cut)
        self._cut.clear()
        return self.lines

    def note(self, now: float) -> str:
        """The line that stands in the log where the others are missing."""
        count = self.lines + len(self._cut)
        lines = "1 line" if count == 1 else f"{count} lines"
        were = "was" if count == 1 else "were"
        full = isinstance(self.error, errors.DiskFull)
        what = "the disk was full" if full else "the log could not be written"
        return (
            f"bireme: {lines} ({_size(self.size)}) {were} dropped here: {what} for {self._lasted(now):.0f} s"
        )

    def _lasted(self, now: float) -> float:
        return max(1.0, now - self._since)


def _parts(entry: bytes) -> tuple[bytes, bytes, bytes]:
    """Stream, tag and text; what is no entry is the text of a line, for a count must never fail."""
    words = entry.split(b" ", 3)
    return (words[1], words[2], words[3]) if len(words) == 4 else (b"", b"F", entry)


def _size(count: int) -> str:
    if count >= 1_000_000:
        return f"{count / 1_000_000:.1f} MB"
    return f"{count / 1000:.1f} KB" if count >= 1000 else f"{count} bytes"
