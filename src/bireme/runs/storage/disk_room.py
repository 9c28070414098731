"""Space on the disk: a runner waits for it when the disk is full, and keeps some in reserve while it runs.

A runner must not end for lack of space: its ranks would end with it. What it knows stays in memory, what it
decided is carried out once it is written, and the ranks continue meanwhile. What cannot be written now is
tried again, ever more rarely.

The reserve is there so that a run whose own output filled the disk can be stopped: the request has to be
written down, and what follows from it as well. Otherwise nothing but `kill` could end it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

from bireme import errors
from bireme.core.clock import Clock
from bireme.model.decisions import Event, EventType
from bireme.runs import runner_log
from bireme.runs.storage import files

FIRST = 0.05
LONGEST = 2.0
"""Seconds between two tries: at first, and at most."""

LAST_TRIES = 5.0
"""Seconds for which a job that is at rest is held by what could not be written of its logs and events."""

PASSING = (errors.DiskFull, errors.NoAccess, errors.Unreachable)
"""What may be over at the next try: a full disk, one that is mounted read-only, one that does not answer.

A file whose folder is gone is none of these: its run was removed on purpose.
"""

Result = TypeVar("Result")


class Note(Protocol):
    """A line that says what is missing, and could not be written yet."""

    def settle(self) -> bool:
        """Write it if there is room; whether it is written."""

    def conclude(self) -> None:
        """Try for the last time."""


class DiskRoom:
    """Remembers since when a run directory cannot be written, so that it is said once."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._since: float | None = None
        self._first, self._reason = "", ""
        self._pause = FIRST
        self._owed: list[Note] = []
        self._resting: float | None = None
        self._dropped = 0
        self.lacks = 0
        """How often something could not be written."""

    @property
    def is_short(self) -> bool:
        return self._since is not None

    @property
    def pause(self) -> float:
        """Seconds until the next try."""
        return self._pause

    def lack(self, error: Exception) -> None:
        """Note that something could not be written."""
        self.lacks += 1
        self._pause = min(LONGEST, self._pause * 2)
        if self._since is None:
            self._since, self._first = self._clock.monotonic(), str(error).partition("\n")[0]
            self._reason = "DiskFull" if files.is_full(error) else "CannotRecord"
            runner_log.say(f"{self._first}; the replicas continue, and this is tried again")

    def owe(self, note: Note) -> None:
        """Keep what is to be written once there is room."""
        self._owed.append(note)

    def settle(self) -> None:
        """Try what is owed."""
        self._owed = [note for note in self._owed if not note.settle()]
        if self._owed:
            self._pause = min(LONGEST, self._pause * 2)

    def has_waited(self, at_rest: bool) -> bool:
        """Whether nothing but writing was left to do for so long that it is not waited for any more."""
        now = self._clock.monotonic()
        if not at_rest:
            self._resting = None
        elif self._resting is None:
            self._resting = now
        return self._resting is not None and now - self._resting >= LAST_TRIES

    def give_up(self) -> None:
        """Try what is owed for the last time: from then on nothing is."""
        for note in self._owed:
            note.conclude()
        self._owed = []

    def dropped(self, lines: int) -> None:
        """Note that lines of a log are missing."""
        self._dropped += lines

    def found(self) -> Event | None:
        """Note that everything is written; returns what is to be told of the time before."""
        if self._since is None or self._owed:
            return None
        seconds, self._since, self._pause = self._clock.monotonic() - self._since, None, FIRST
        lines, self._dropped = self._dropped, 0
        text = f"{self._first}. For {seconds:.0f} s nothing could be recorded: the replicas continued"
        if lines:
            text += f", and {lines} line{'s' if lines > 1 else ''} that they printed were dropped"
        return Event(EventType.WARNING, self._reason, text)

    async def within(self, seconds: float, write: Callable[[], None]) -> None:
        """Write, if need be when there is room, and give up if there is none for so long."""
        import asyncio  # here: a command that only submits needs none of it

        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.until(write)

    async def until(self, write: Callable[[], Result]) -> Result:
        """Write, if need be when there is room; only what cannot pass is raised."""
        while True:
            try:
                with files.explained(self._path):
                    return write()
            except PASSING as error:
                self.lack(error)
            import asyncio

            await asyncio.sleep(self._pause)


_RESERVE = "reserve"
_RESERVE_SIZE = 60 << 10
"""Bytes: an order, and what its runner records until the ranks have ended.

Less than what `files.has_room` asks for, so that no log takes it.
"""


def keep_reserve(folder: Path) -> None:
    """Takes the room, as far as there is some."""
    with contextlib.suppress(OSError, AttributeError):  # macOS has no posix_fallocate
        fd = os.open(folder / _RESERVE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(fd).st_blocks * 512 < _RESERVE_SIZE:
                os.posix_fallocate(fd, 0, _RESERVE_SIZE)
        finally:
            os.close(fd)


def release_reserve(folder: Path) -> bool:
    """Gives the room back; returns whether there was any."""
    try:
        os.unlink(folder / _RESERVE)
    except OSError:
        return False
    return True
