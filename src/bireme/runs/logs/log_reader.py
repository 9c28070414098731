"""Reads what the replicas printed: all of it, the end of it, or as it comes."""

from __future__ import annotations

import heapq
import os
import re
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from bireme.runs.logs.log_entries import (
    LogEntry,
    last_state,
    live_path,
    parse_entry,
    read_live,
    segment_path,
    segments,
)
from bireme.runs.storage import files

_CHUNK = 1024 * 1024
_BLOCK = 64 * 1024
_LONGEST = 1024 * 1024
_ENDED = re.compile(rb"^\S+ \S+ F ", re.MULTILINE)


class LogLine(Struct, frozen=True):
    """One line that a container printed."""

    time: float
    replica: str
    container: str
    stream: str
    text: str


class LogSelection(Struct, frozen=True):
    """Which lines: of all replicas and containers or of one, since a time, only the last few."""

    replica: str | None = None
    container: str | None = None
    since: float | None = None
    last: int | None = None
    """Of the lines that are there at the start, only so many; what comes later is not counted."""


EVERYTHING = LogSelection()


def read(logs: Path, choice: LogSelection = EVERYTHING) -> Iterator[LogLine]:
    """Yields the lines of all replicas in the order of their times, without holding them all in memory."""
    with LogFollower(logs, choice) as follower:
        yield from follower.poll()
        while follower.behind:
            yield from follower.poll()


def tail(logs: Path, count: int, choice: LogSelection = EVERYTHING) -> list[LogLine]:
    """Returns the last lines, reading only the ends of the files."""
    with LogFollower(logs, LogSelection(choice.replica, choice.container, choice.since, count)) as follower:
        return follower.poll()


class LogFollower:
    """Reads on where it stopped: each poll returns what was printed since, over all files, each line once."""

    def __init__(self, logs: Path, choice: LogSelection = EVERYTHING) -> None:
        self._logs = logs
        self._choice = choice
        self._sources: dict[tuple[str, str], _Source] = {}
        self._first = True
        self.behind = False
        """There is more to return at once: poll again without waiting."""

    def poll(self) -> list[LogLine]:
        """Returns new lines, ordered by time among themselves; a long backlog comes in several polls."""
        lines = self._poll()
        if self._first and self._choice.last is not None:
            kept = deque(lines, maxlen=self._choice.last)
            while self.behind:
                kept.extend(self._poll())
            lines = list(kept)
        self._first = False
        return lines

    def live(self) -> list[LogLine]:
        """Returns the lines that have not ended yet, as they look now: progress bars, prompts."""
        return [
            _line(source, entry, entry.text)
            for source in self._sources.values()
            for entry in read_live(live_path(source.folder, source.container))
        ]

    def close(self) -> None:
        for source in self._sources.values():
            source.close()

    def __enter__(self) -> LogFollower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _poll(self) -> list[LogLine]:
        replicas: list[str] = []
        if self._choice.replica is not None:
            replicas = [self._choice.replica]
        else:
            with files.explained(self._logs), suppress(FileNotFoundError):
                replicas = sorted(os.listdir(self._logs))
        for replica in replicas:
            # Listed before it is read: a file is never written to once the next one exists, so a reader that
            # sees the next one here gets the whole of the one before.
            with files.explained(self._logs / replica):
                for container, numbers in segments(self._logs / replica).items():
                    if self._choice.container in (None, container):
                        self._source(replica, container, numbers).fill(numbers)
        sources = self._sources.values()
        # Lines later than where another file was read to have to wait, or they would overtake its lines.
        horizon = min((source.latest for source in sources if source.more), default=float("inf"))
        merged = heapq.merge(*(source.take(horizon) for source in sources), key=lambda pair: pair[0])
        since = self._choice.since
        lines = [line for _, line in merged if since is None or line.time >= since]
        self.behind = any(source.more or source.ready for source in sources)
        return lines

    def _source(self, replica: str, container: str, numbers: list[int]) -> _Source:
        source = self._sources.get((replica, container))
        if source is None:
            source = _Source(self._logs / replica, container)
            if self._first and self._choice.last is not None:
                source.start_at_last(numbers, self._choice.last)
            elif self._choice.since is not None:
                source.start_at_time(numbers, self._choice.since)
            self._sources[(replica, container)] = source
        return source


class _Source:
    """The files of one container, read from some place on."""

    def __init__(self, folder: Path, container: str) -> None:
        self.folder = folder
        self.container = container
        self.ready: deque[tuple[float, LogLine]] = deque()
        """Lines that are read and not yet returned, with a time that never goes back."""
        self.latest = float("-inf")
        self.more = False
        """Reading stopped before the end."""
        self._number = 0
        self._fd: int | None = None
        self._offset = 0
        self._rest = b""
        self._pieces: dict[str, bytes] = {}

    def fill(self, numbers: list[int]) -> None:
        """Reads a chunk on, or more if a chunk holds no whole line."""
        if self.ready:
            return
        self.more = True
        left = _CHUNK
        while self.more and (left > 0 or not self.ready):
            data = os.pread(self._fd, _CHUNK, self._offset) if self._fd is not None else b""
            if data:
                left -= len(data)
                self._offset += len(data)
                self._parse(data)
            else:
                self.more = any(self._open(number) for number in numbers if number > self._number)

    def take(self, horizon: float) -> Iterator[tuple[float, LogLine]]:
        while self.ready and self.ready[0][0] <= horizon:
            yield self.ready.popleft()

    def start_at_last(self, numbers: list[int], count: int) -> None:
        """Goes to where no more than about `count` lines follow."""
        for number in reversed(numbers):
            if not self._open(number):
                return
            found, offset = _back(self._require(), count)
            self._offset = offset
            count -= found
            if count <= 0:
                return

    def start_at_time(self, numbers: list[int], since: float) -> None:
        """Goes to shortly before the first line of that time."""
        for number in reversed(numbers):
            if not self._open(number):
                return
            first = _time_after(self._require(), 0)
            if first is not None and first < since:
                self._offset = _place_of(self._require(), since)
                return

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self, number: int) -> bool:
        try:
            fd = files.opened(segment_path(self.folder, self.container, number))
        except FileNotFoundError:  # it was too old to be kept
            return False
        self.close()
        self._fd, self._number, self._offset, self._rest = fd, number, 0, b""
        return True

    def _require(self) -> int:
        assert self._fd is not None
        return self._fd

    def _parse(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        # No entry is that long: of a file without line ends, nothing is kept that could be one.
        self._rest = rest[-_LONGEST:]
        for line in lines:
            entry = parse_entry(line)
            if entry is None:
                continue
            before = self._pieces.pop(entry.stream, b"")
            text = before + entry.text if before else entry.text
            if not entry.whole and len(text) < _LONGEST:
                self._pieces[entry.stream] = text
                continue
            # Clocks are set back: for the merge of all files, a line is never older than the one before it.
            self.latest = max(self.latest, entry.time)
            self.ready.append((self.latest, _line(self, entry, text)))


def _line(source: _Source, entry: LogEntry, text: bytes) -> LogLine:
    shown = last_state(text).decode(errors="replace")
    return LogLine(entry.time, source.folder.name, source.container, entry.stream, shown)


def _back(fd: int, count: int) -> tuple[int, int]:
    """Goes back from the end over so many lines; returns how many there were, and where that is.

    It goes a block further, for long lines: of one that began even further back, only the end is seen.
    """
    found, enough = 0, False
    offset = os.fstat(fd).st_size
    carried = b""
    while offset > 0 and not enough:
        enough = found >= count
        start = max(0, offset - _BLOCK)
        block = os.pread(fd, offset - start, start) + carried
        cut = block.find(b"\n") + 1 if start else 0
        found += len(_ENDED.findall(block[cut:]))
        carried, offset = block[:cut], start
    return found, offset + len(carried)


def _place_of(fd: int, since: float) -> int:
    low, high = 0, os.fstat(fd).st_size
    while high - low > _BLOCK:
        middle = (low + high) // 2
        found = _time_after(fd, middle)
        if found is not None and found < since:
            low = middle
        else:
            high = middle
    return _line_start(fd, low)


def _time_after(fd: int, offset: int) -> float | None:
    """Returns the time of the first entry that begins after an offset."""
    start = _line_start(fd, offset)
    for line in os.pread(fd, _BLOCK, start).split(b"\n"):
        if entry := parse_entry(line):
            return entry.time
    return None


def _line_start(fd: int, offset: int) -> int:
    if offset == 0:
        return 0
    end = os.pread(fd, _BLOCK, offset - 1).find(b"\n")
    return offset + end if end >= 0 else offset
