"""Takes the output of a program to its log file without costing the training anything."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable

from bireme.core.clock import Clock
from bireme.runs import runner_log
from bireme.runs.logs.log_entries import (
    Stream,
)
from bireme.runs.logs.log_writer import (
    LogWriter,
)
from bireme.runs.storage.disk_room import PASSING, DiskRoom

_PAUSE = 0.02
"""Seconds between two reads of one pipe: a chatty program wakes us at most fifty times a second."""
_CHUNK = 1 << 16
_MOST_CHUNKS = 64
"""Chunks that are still taken when a program has ended; a pipe holds sixteen of them at most."""


class Pump:
    """Reads one pipe into a sink until it is closed."""

    def __init__(self, sink: Callable[[bytes], None]) -> None:
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self._timer: asyncio.TimerHandle | None = None
        self._open = True
        self._listen()

    def started(self) -> None:
        """The program has its own copy of the write end now."""
        os.close(self.write_end)

    def finish(self) -> None:
        """Take what is still in the pipe and close it; a process that has the other end gets SIGPIPE."""
        # At most what the pipe held when its program ended: a process that escaped may write for ever.
        try:
            for _ in range(_MOST_CHUNKS):
                if not self._open or not self._take():
                    break
        finally:
            if self._open:
                self._close()

    def _listen(self) -> None:
        self._timer = None
        if self._open:
            self._loop.add_reader(self._read_end, self._ready)

    def _ready(self) -> None:
        self._loop.remove_reader(self._read_end)
        try:
            self._take()
        finally:
            # Whatever became of this chunk: a program whose pipe is not read would wait for ever.
            if self._open:
                self._timer = self._loop.call_later(_PAUSE, self._listen)

    def _take(self) -> bool:
        """Move one chunk; False when there is nothing now or nothing more."""
        if not self._open:
            return False
        try:
            data = os.read(self._read_end, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._close()
            return False
        self._sink(data)
        return True

    def _close(self) -> None:
        self._open = False
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._read_end)
        with contextlib.suppress(OSError):
            os.close(self._read_end)


class LogSink:
    """Takes what a container prints to its log; a full disk costs log lines, never the training."""

    def __init__(self, writer: LogWriter, room: DiskRoom, changed: Callable[[], None], clock: Clock) -> None:
        """`changed` wakes the runner, which tries again what `room` is owed."""
        self._writer = writer
        self._room = room
        self._changed = changed
        self._clock = clock
        self._told = 0
        self._owes = False
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def stdout(self, data: bytes) -> None:
        self._feed(Stream.STDOUT, data)

    def stderr(self, data: bytes) -> None:
        self._feed(Stream.STDERR, data)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._writer.close(self._clock.time())
        self._notice()

    def _feed(self, stream: Stream, data: bytes) -> None:
        self._writer.feed(stream, data, self._clock.time())
        self._notice()
        if self._timer is None:
            self._tick()

    def settle(self) -> bool:
        """Have the note on what is missing written if there is room."""
        if not self._writer.recover(self._clock.time()):
            return False
        self._noted()
        return True

    def conclude(self) -> None:
        """Have that note tried for the last time."""
        self._writer.conclude(self._clock.time())
        self._noted()

    def _notice(self) -> None:
        """Owe the note on what is missing until there is room, even if nothing more comes."""
        # What does not pass, such as a folder that is gone, is not waited for.
        if isinstance(self._writer.lack, PASSING) and not self._owes:
            self._owes = True
            self._room.lack(self._writer.lack)
            self._room.owe(self)
            self._changed()

    def _noted(self) -> None:
        self._room.dropped(self._writer.dropped - self._told)
        self._told, self._owes = self._writer.dropped, False

    def _tick(self) -> None:
        """Show unfinished lines when they are due."""
        self._timer = None
        now = self._clock.time()
        due = self._writer.tick(now)
        if due is not None:
            self._timer = self._loop.call_later(max(0.0, due - now), self._tick)


def drain(pumps: Iterable[Pump], sink: LogSink) -> None:
    """Take the last output of a container that has ended; whatever becomes of its log, it has ended."""
    for step in (*(pump.finish for pump in pumps), sink.close):
        try:
            step()
        except Exception as error:
            runner_log.say(f"the end of a log was lost: {type(error).__name__}: {error}"[:500])
