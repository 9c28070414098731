"""Writes what a container prints into its log files, and never makes the container wait.

A line that a program has not ended yet, such as a progress bar that it rewrites with `\\r`, is not in the log
files. Its present state is in `main.live`, replaced at most twice a second, and gone when the line has ended:
of a bar, only the last state remains. If the writer is killed, the next one ends the line with that state.
"""

from __future__ import annotations

import resource
import sys
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from bireme import errors
from bireme.runs.logs.log_entries import (
    DroppedLines,
    LogEntry,
    Stream,
    encode_entry,
    last_state,
    live_path,
    parse_entry,
    read_live,
    segment_path,
    segments,
)
from bireme.runs.storage import files

_TAIL = 65536


class LogSettings(Struct, frozen=True):
    """How much is kept of a container's output, and how it is cut."""

    rotate_at: int = 50 * 1024 * 1024
    """Bytes after which a file is not written to any more."""
    keep: int = 4
    """Full files that are kept beside the one that is written."""
    piece: int = 16 * 1024
    """Bytes of text in an entry."""
    live_every: float = 0.5
    """Seconds between two states of an unfinished line."""


class LogWriter:
    """Writes what one container prints; there is one writer of a container at a time.

    A program must never wait for its log: what cannot be written is dropped and counted, and as soon as there
    is room again a line in the log says how much is missing. `lack` says why nothing is written now.
    """

    def __init__(self, logs: Path, replica: str, container: str, settings: LogSettings | None = None) -> None:
        self._settings = settings or LogSettings()
        # `ulimit -f` limits how large a file may become: past it, nothing more could be written.
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        largest = sys.maxsize if limit == resource.RLIM_INFINITY else limit
        self._rotate_at = min(self._settings.rotate_at, largest)
        self._folder = logs / replica
        self._container = container
        with files.explained(self._folder):
            self._folder.mkdir(mode=files.PRIVATE_FOLDER, parents=True, exist_ok=True)
        self._numbers = segments(self._folder).get(container, [1])
        self._file = files.Appender(segment_path(self._folder, container, self._numbers[-1]))
        self._size = self._file.size
        self._lines = {stream: _Line(stream, self._settings.piece) for stream in Stream}
        self._due: float | None = None
        self._shown = False
        self._dropping: DroppedLines | None = None
        self.dropped = 0
        """Lines that are missing, and of which a line in the log says so."""
        self._end_left_lines()

    @property
    def lack(self) -> errors.BiremeError | None:
        """Why output is dropped now; None while it is written."""
        return self._dropping.error if self._dropping else None

    def feed(self, stream: Stream, data: bytes, now: float) -> None:
        """Takes what the container printed just now, in whatever chunks it comes."""
        line = self._lines[stream]
        *ended, rest = data.split(b"\n")
        out = b"".join([line.end(text, now) for text in ended])
        out += line.grow(rest, now)
        if out:
            self._write(out, now)
        hidden = bool(ended) and self._shown
        if hidden:
            self._unshow()
        if self._due is None and (rest or hidden):
            self._due = now + self._settings.live_every
        self.tick(now)

    def tick(self, now: float) -> float | None:
        """Shows the state of unfinished lines if it is time to; returns when to call again at the latest."""
        if not any(line.text for line in self._lines.values()):
            self._due = None
        if self._due is None:
            return None
        # The clock may have been set back: then "due" is further away than it can be.
        if self._due - self._settings.live_every <= now < self._due:
            return self._due
        self._due = None
        states = [line.state(now) for line in self._lines.values() if line.text]
        # On a full disk the state is not shown; what has ended is what must not be lost silently.
        with suppress(errors.BiremeError):
            data = b"".join(map(encode_entry, states))
            files.replace_quickly(live_path(self._folder, self._container), data)
            self._shown = True
        return None

    def close(self, now: float) -> None:
        """Ends unfinished lines: their program is gone."""
        out = b"".join(line.end(b"", now) for line in self._lines.values() if line.text or line.pieces)
        if out:
            self._write(out, now)
        self._unshow()
        self._file.close()

    def recover(self, now: float) -> bool:
        """Says in the log what is missing there, if there is room; returns whether nothing is dropped now.

        It may be called after `close` as well: a program often ends before the disk has room again.
        """
        lost = self._dropping
        if lost is None:
            return True
        # Without this look, each try would leave another torn note on a disk that has a few bytes left.
        if not lost.may_try(now) or not files.has_room(self._folder):
            return False
        if not self._note(lost, now):
            return False
        self.dropped += lost.finish()
        self._dropping = None
        return True

    def conclude(self, now: float) -> None:
        """Says in the log what is missing there, or does without: it waits no longer."""
        if self._dropping is not None:
            self._note(self._dropping, now)
            self.dropped += self._dropping.finish()
            self._dropping = None

    def _note(self, lost: DroppedLines, now: float) -> bool:
        note = encode_entry(LogEntry(now, Stream.STDERR, True, lost.note(now).encode()))
        self._make_way(note)
        return self._append(note, now) >= len(note) - 1

    def _write(self, out: bytes, now: float) -> None:
        if self._dropping is not None and not self.recover(now):
            self._dropping.count(out, written=0)
            return
        self._make_way(out)
        written = self._append(out, now)
        if self._dropping is not None:
            self._dropping.count(out, written)

    def _make_way(self, out: bytes) -> None:
        """Begins a new file where this one would become too large."""
        if self._size and self._size + len(out) > self._rotate_at:
            self._file.close()
            self._numbers.append(self._numbers[-1] + 1)
            # The oldest go before the new one is made: on a full disk that makes the room it needs.
            while len(self._numbers) > self._settings.keep + 1:
                with suppress(OSError):
                    segment_path(self._folder, self._container, self._numbers.pop(0)).unlink()
            self._file = files.Appender(segment_path(self._folder, self._container, self._numbers[-1]))
            self._size = 0

    def _append(self, out: bytes, now: float) -> int:
        """Appends what fits; what does not makes the writer drop output until it recovers."""
        try:
            written = self._file.append_what_fits(out)
            self._size += written
            # Only the last end-of-line may be missing: the next append begins with it.
            if written >= len(out) - 1:
                return written
            error: errors.BiremeError = files.no_room_for(self._file.path)
        except errors.BiremeError as refused:
            written, error = 0, refused
        if self._dropping is None:
            self._dropping = DroppedLines(error, now)
        return written

    def _unshow(self) -> None:
        with suppress(OSError):
            live_path(self._folder, self._container).unlink()
        self._shown = False

    def _end_left_lines(self) -> None:
        """Ends the lines that a killed writer left unfinished."""
        live = live_path(self._folder, self._container)
        files.sweep(live)
        # The last entry of a stream in the file, if it is a piece: the rest of its line never came.
        with files.explained(self._file.path), self._file.path.open("rb") as file:
            file.seek(max(0, self._size - _TAIL))
            lines = file.read(_TAIL).split(b"\n")
        last = {entry.stream: entry for line in lines if (entry := parse_entry(line))}
        unfinished = {
            stream: LogEntry(entry.time, stream, True, b"")
            for stream, entry in last.items()
            if not entry.whole
        }
        # The live file knows more of such a line than its pieces do, so it comes second.
        unfinished |= {entry.stream: entry for entry in read_live(live)}
        if unfinished:
            ends = [LogEntry(entry.time, entry.stream, True, entry.text) for entry in unfinished.values()]
            self._write(b"".join(map(encode_entry, ends)), max(entry.time for entry in ends))
        self._unshow()


class _Line:
    """The line of a stream that has not ended yet."""

    def __init__(self, stream: str, piece: int) -> None:
        self.text = b""
        self.pieces = False
        """A part of the line is written already, and cannot be taken back."""
        self._stream = stream
        self._piece = piece

    def end(self, more: bytes, now: float) -> bytes:
        text = self._rewound(self.text + more).rstrip(b"\r")
        cut = max(0, len(text) - 1) // self._piece * self._piece
        pieces = self._cut(text[:cut], now)
        self.text, self.pieces = b"", False
        return pieces + encode_entry(LogEntry(now, self._stream, True, text[cut:]))

    def grow(self, more: bytes, now: float) -> bytes:
        """Takes more of the line and returns the pieces that are too long to keep."""
        if not more:
            return b""
        text = self._rewound(self.text + more)
        cut = len(text) // self._piece * self._piece
        self.text = text[cut:]
        self.pieces = self.pieces or cut > 0
        return self._cut(text[:cut], now)

    def state(self, now: float) -> LogEntry:
        return LogEntry(now, self._stream, False, last_state(self.text))

    def _rewound(self, text: bytes) -> bytes:
        """Forgets what was overwritten; a `\\r` at the very end has not overwritten anything yet."""
        start = text.rstrip(b"\r").rfind(b"\r")
        if start < 0:
            return text
        # The reader is told by the `\r` to forget pieces that are written.
        return text[start:] if self.pieces else text[start + 1 :]

    def _cut(self, text: bytes, now: float) -> bytes:
        starts = range(0, len(text), self._piece)
        cuts = [LogEntry(now, self._stream, False, text[start : start + self._piece]) for start in starts]
        return b"".join(map(encode_entry, cuts))
