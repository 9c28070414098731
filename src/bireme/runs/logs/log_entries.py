"""The format of a container's log, which is that of the kubelet, and the note for lines that were dropped.

An entry is a line `2026-11-15T23:08:28.123456000Z stdout F text`. `F` ends a line of the program; `P` is a
piece of a long one that continues with the next entry of the same stream. The files of a container are
numbered and never renamed: `main.log`, `main.2.log`, `main.3.log`... The newest has the highest number, and
the oldest are removed. So a reader that saw the next file before it reached the end of one has all of it.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from bireme import errors
from bireme.runs.storage import files

_SEGMENT = re.compile(r"(?P<container>[^.]+)(?:\.(?P<number>[0-9]+))?\.log")
TRY_EVERY = 0.5
"""Seconds between two tries to write again, where the system says that there is room."""


class Stream(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"


_STREAMS = {str(stream).encode(): str(stream) for stream in Stream}


class LogEntry(Struct, frozen=True):
    """One line of a log file."""

    time: float
    stream: str
    whole: bool
    """It ends a line of the program; else the next entry of the stream continues it."""
    text: bytes


def encode_entry(entry: LogEntry) -> bytes:
    seconds, rest = divmod(round(entry.time * 1_000_000), 1_000_000)
    stamp = b"%b.%06d000Z" % (_second(seconds), rest)
    return b"%b %b %b %b\n" % (stamp, entry.stream.encode(), b"F" if entry.whole else b"P", entry.text)


def parse_entry(line: bytes) -> LogEntry | None:
    """Returns None for what is no entry, such as a line that a killed writer tore."""
    try:
        stamp, stream, tag, text = line.split(b" ", 3)
        fraction = float(stamp[19:-1])
        if not 0.0 <= fraction < 1.0:  # nor is it NaN
            return None
        return LogEntry(_epoch(stamp[:19]) + fraction, _STREAMS[stream], tag == b"F", text)
    except (ValueError, KeyError):
        return None


def segment_path(folder: Path, container: str, number: int) -> Path:
    return folder / (f"{container}.log" if number == 1 else f"{container}.{number}.log")


def live_path(folder: Path, container: str) -> Path:
    return folder / f"{container}.live"


def segments(folder: Path) -> dict[str, list[int]]:
    """Returns the numbers of each container's files in the folder of a replica, oldest first."""
    found: dict[str, list[int]] = {}
    with suppress(FileNotFoundError, NotADirectoryError):
        for name in os.listdir(folder):
            if match := _SEGMENT.fullmatch(name):
                found.setdefault(match["container"], []).append(int(match["number"] or 1))
    return {container: sorted(numbers) for container, numbers in found.items()}


def last_state(line: bytes) -> bytes:
    """Returns what a terminal would show of a line in which the program rewrote itself with `\\r`."""
    return line.rstrip(b"\r").rpartition(b"\r")[2]


def read_live(path: Path) -> tuple[LogEntry, ...]:
    """Returns the unfinished lines of a container, one per stream."""
    try:
        data = files.read(path)
    except OSError:
        return ()
    return tuple(entry for line in data.split(b"\n") if (entry := parse_entry(line)))


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
            # What is no entry counts as a line: to count must never fail.
            words = entry.split(b" ", 3)
            stream, tag, text = (words[1], words[2], words[3]) if len(words) == 4 else (b"", b"F", entry)
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
        seconds = max(1.0, now - self._since)
        return f"bireme: {lines} ({_size(self.size)}) {were} dropped here: {what} for {seconds:.0f} s"


def _size(count: int) -> str:
    if count >= 1_000_000:
        return f"{count / 1_000_000:.1f} MB"
    return f"{count / 1000:.1f} KB" if count >= 1000 else f"{count} bytes"


@lru_cache(maxsize=16)
def _second(seconds: int) -> bytes:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode()


@lru_cache(maxsize=256)
def _epoch(second: bytes) -> float:
    return datetime.fromisoformat(second.decode() + "+00:00").timestamp()
