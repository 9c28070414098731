"""What is new about a run since the last look: a follower that reads only what changed.

It polls, because that works on every file system; a poll that finds nothing new costs a few `stat` calls.
The times of files are coarse, so once a second it reads without asking them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from bireme.engine import control
from bireme.model.replicas import Observation
from bireme.model.status import Phase, Status
from bireme.runs.directory import RunDirectory
from bireme.runs.logreading import EVERYTHING, Choice, Follower, LogLine
from bireme.sdk import viewing
from bireme.sdk.views import Diagnosis

SOON = 0.02
"""Seconds between two looks while a job is young and its user waits for the first line."""
LATER = 0.05
YOUNG = 2.0
"""Seconds for which a job is young."""
REST = 2.0
"""Seconds for which replicas that outlive the verdict are still listened to."""

_UNASKED = 1.0

Value = TypeVar("Value")


class Glance(Struct, frozen=True):
    """A run at one moment, in what a status line has room for."""

    id: str
    phase: Phase
    ready: int
    total: int
    attempt: int
    waiting: str = ""
    trouble: str = ""


class Watch:
    """Follows one run: its lines, and its state at a glance."""

    def __init__(self, run: RunDirectory, choice: Choice = EVERYTHING) -> None:
        self.run = run
        self.job = run.desired().job
        self._follower = Follower(run.logs, choice)
        self._logs = _Changes(run.logs)
        self._status = _Cached(run.path / "status.json", Status)
        self._seen = _Cached(run.path / "seen.json", Observation)
        self._looked = 0.0
        self._ended: float | None = None
        self._unheld: float | None = None
        self._probed = 0.0

    def poll(self) -> list[LogLine]:
        """The lines that were printed since the last poll."""
        now = time.monotonic()
        due = now - self._looked >= _UNASKED
        if not self._logs.changed() and not due and not self._follower.behind:
            return []
        self._looked = now
        return self._follower.poll()

    def drain(self) -> Iterator[LogLine]:
        """All lines that are left, whatever the files' times say."""
        yield from self._follower.poll()
        while self._follower.behind:
            yield from self._follower.poll()

    def unfinished(self) -> LogLine | None:
        """The newest line that its program has not ended yet: a progress bar, a prompt."""
        return max(self._follower.live(), key=lambda line: line.time, default=None)

    def glance(self) -> Glance:
        status = self._status.get() or Status()
        present = (self._seen.get() or Observation()).replicas
        return Glance(
            id=str(self.run.id),
            phase=status.phase,
            ready=sum(one.ready and one.attempt == status.attempt and not one.stopping for one in present),
            total=self.job.total,
            attempt=status.attempt,
            waiting=status.waiting,
            trouble=status.trouble,
        )

    def diagnose(self) -> Diagnosis | None:
        """Why the run waits, restarted or failed, as it stands now."""
        return viewing.explained(self.run)

    def exists(self) -> bool:
        return self.run.exists()

    def is_over(self) -> bool:
        """Whether nothing more is to be expected: it ended or was put aside, and its ranks are silent."""
        status = self._status.get() or Status()
        if status.phase.is_final:
            self._ended = self._ended or time.monotonic()
            return time.monotonic() - self._ended >= REST or not self._is_held()
        self._ended = None
        return status.phase is Phase.SUSPENDED and not self._is_held()

    def revive(self) -> bool:
        """Starts a runner if the run has lost its own; returns whether it did."""
        now = time.monotonic()
        if now - self._probed < _UNASKED:
            return False
        self._probed = now
        phase = (self._status.get() or Status()).phase
        if phase.is_final or phase is Phase.SUSPENDED or self._is_held():
            self._unheld = None
            return False
        # Its guard needs a moment to start another one; nobody is revived at the first sight.
        if self._unheld is None:
            self._unheld = now
            return False
        self._unheld = None
        return control.tend(self.run)

    def close(self) -> None:
        self._follower.close()

    def _is_held(self) -> bool:
        return self.run.is_held()


def pauses(clock: Callable[[], float] = time.monotonic) -> Iterator[float]:
    """How long to sleep before each next look: short at first, then long enough to cost nothing."""
    begin = clock()
    while True:
        yield SOON if clock() - begin < YOUNG else LATER


class _Changes:
    """Says whether anything in the folder of the logs may have changed, at the price of some `stat` calls."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folders: dict[Path, int] = {}
        self._files: dict[Path, int] = {}

    def changed(self) -> bool:
        changed = False
        for folder in (self._folder, *self._folders):
            stamp = _modified(folder)
            if self._folders.get(folder) != stamp:
                self._folders[folder] = stamp
                self._list(folder)
                changed = True
        for file, size in self._files.items():
            now = _size(file)
            if now != size:
                self._files[file] = now
                changed = True
        return changed

    def _list(self, folder: Path) -> None:
        try:
            found = list(os.scandir(folder))
        except OSError:
            return
        for one in found:
            if one.is_dir(follow_symlinks=False):
                self._folders.setdefault(Path(one.path), -1)
            elif one.name.endswith(".log"):
                self._files.setdefault(Path(one.path), -1)


class _Cached(Generic[Value]):
    """A file that is replaced as a whole, decoded again only when it was."""

    def __init__(self, path: Path, type: type[Value]) -> None:
        self._path = path
        self._decoder = msgspec.json.Decoder(type)
        self._stamp: tuple[int, int] | None = None
        self._value: Value | None = None

    def get(self) -> Value | None:
        """The content; None as long as there is none."""
        try:
            found = os.stat(self._path)
            stamp = (found.st_mtime_ns, found.st_ino)
            if stamp != self._stamp:
                self._value = self._decoder.decode(self._path.read_bytes())
                self._stamp = stamp
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            pass
        return self._value


def _modified(folder: Path) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return -1


def _size(file: Path) -> int:
    try:
        return os.stat(file).st_size
    except OSError:
        return -1
