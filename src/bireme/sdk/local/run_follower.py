"""Follows a run, and reads only what changed since the last look.

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

from bireme import errors
from bireme.core.machine import stalls
from bireme.model.decode_errors import DAMAGED
from bireme.model.replicas import Observation
from bireme.model.status import Phase, Status
from bireme.runner import control
from bireme.runs.directory import RunDirectory
from bireme.runs.logs.log_reader import EVERYTHING, LogFollower, LogLine, LogSelection
from bireme.runs.run_files import Desired
from bireme.runs.storage import files
from bireme.sdk import job_state
from bireme.sdk.local import run_views
from bireme.sdk.views import Diagnosis, Glance

REST = 2.0
"""Seconds for which replicas that outlive the verdict are still listened to."""

_UNASKED = 1.0
_FOLDERS_EVERY = 5
"""Looks between two at the folders: a new file in one is rarer than a new line in a file."""
_CLOSER_EVERY = 10.0
"""Seconds between two looks at what a silent job has reported."""
_UNSEEN = -1
_FULL = (
    "{home} is on a full disk: what is shown may be old, ends are recorded when there is room, "
    "lines may be dropped"
)

Value = TypeVar("Value")


class Watch:
    """Follows one run: its lines, and its state at a glance."""

    def __init__(
        self,
        run: RunDirectory,
        choice: LogSelection = EVERYTHING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` says for how long nothing was heard."""
        self.run = run
        self._clock = clock
        self.job = run.desired().job
        self._follower = LogFollower(run.logs, choice)
        self._logs = _Changes(run.logs)
        self._status = _Cached(run.path / "status.json", Status)
        self._seen = _Cached(run.path / "seen.json", Observation)
        self._desired = _Cached(run.path / "job.json", Desired)
        self._looked = 0.0
        self._ended: float | None = None
        self._unheld: float | None = None
        self._probed = 0.0
        self._heard = self._asked = clock()
        self._stalled = ""
        self.refresh()

    @property
    def id(self) -> str:
        return str(self.run.id)

    def refresh(self) -> None:
        """Looks at the status again; `poll` does so too."""
        self._status.refresh()

    def poll(self) -> list[LogLine]:
        """The lines that were printed since the last poll."""
        self.refresh()
        now = time.monotonic()
        due = now - self._looked >= _UNASKED
        if not self._logs.changed() and not due and not self._follower.behind:
            return []
        self._looked = now
        lines = self._follower.poll()
        if lines:
            self._heard, self._stalled = self._clock(), ""
        return lines

    def drain(self) -> Iterator[LogLine]:
        """All lines that are left, whatever the files' times say."""
        yield from self._follower.poll()
        while self._follower.behind:
            yield from self._follower.poll()

    def silence(self) -> str:
        """Nothing is ever lost here: no line means that none was printed."""
        return ""

    def unfinished(self) -> LogLine | None:
        """The newest line that its program has not ended yet: a progress bar, a prompt."""
        return max(self._follower.live(), key=lambda line: line.time, default=None)

    def glance(self) -> Glance:
        status = self._now()
        self._seen.refresh()
        self._desired.refresh()  # it may have been scaled since
        present = (self._seen.value or Observation()).replicas
        current = [replica for replica in present if replica.attempt == status.attempt]
        now = self._clock()
        if now - self._heard >= stalls.LEAST and now - self._asked >= _CLOSER_EVERY:
            self._asked = now
            self._stalled = run_views.stall_hint(self.run, time.time())
        return Glance(
            id=str(self.run.id),
            phase=status.phase,
            ready=sum(replica.ready and not replica.stopping for replica in current),
            total=(self._desired.value.job if self._desired.value else self.job).total,
            attempt=status.attempt,
            waiting=status.waiting,
            trouble=status.trouble,
            behind=shortage(self.run.home),
            stalled=self._stalled,
            again=job_state.restarted_in_place(self.job, current),
        )

    def diagnose(self) -> Diagnosis | None:
        """Why the run waits, restarted or failed, as it stands now."""
        return run_views.explained(self.run)

    def why_restarted(self, attempt: int | None = None) -> Diagnosis | None:
        """Why an attempt was begun, by default the last one, even if the run has ended since."""
        return run_views.restarted(self.run, attempt)

    def exists(self) -> bool:
        """Whether the run is there: it may be removed while it is followed."""
        return not self._status.is_missing or self.run.exists()

    def is_removed(self) -> bool:
        """Whether the run is gone, or is ended to be removed."""
        try:
            return self.run.desired().deleted
        except errors.BiremeError:
            return not self.run.exists()

    def is_over(self) -> bool:
        """Whether nothing more is to be expected: it ended or was suspended, and its ranks are silent."""
        phase = self._now().phase
        if phase.is_final:
            self._ended = self._ended or time.monotonic()
            return time.monotonic() - self._ended >= REST or not self.run.is_held()
        self._ended = None
        return phase is Phase.SUSPENDED and not self.run.is_held()

    def revive(self) -> bool:
        """Starts a runner if the run has lost its own; returns whether it did."""
        now = time.monotonic()
        if now - self._probed < _UNASKED:
            return False
        self._probed = now
        phase = self._now().phase
        if phase.is_at_rest or self.run.is_held():
            self._unheld = None
            return False
        # Its guard needs a moment to start another one; no runner is replaced at the first sight.
        if self._unheld is None:
            self._unheld = now
            return False
        self._unheld = None
        return control.ensure_runner(self.run)

    def close(self) -> None:
        self._follower.close()

    def _now(self) -> Status:
        return self._status.value or Status()


def shortage(home: Path) -> str:
    """A sentence if the disk of the runs is full; else nothing."""
    return "" if files.has_room(home) else _FULL.format(home=home)


class _Changes:
    """Says whether anything in the folder of the logs may have changed, at the price of some `stat` calls."""

    def __init__(self, folder: Path) -> None:
        self._top = str(folder)
        self._folders: dict[str, int] = {self._top: _UNSEEN}
        self._files: dict[str, int] = {}
        self._quiet: set[str] = {self._top}
        """Folders in which no file was seen yet: the first one is waited for."""
        self._turn = 0

    def changed(self) -> bool:
        self._turn += 1
        folders = list(self._folders) if self._turn % _FOLDERS_EVERY == 0 else list(self._quiet)
        changed = sum(self._look_into(folder) for folder in folders) > 0
        for file, size in self._files.items():
            now = _stat(file).st_size
            if now != size:
                self._files[file] = now
                changed = True
        return changed

    def _look_into(self, folder: str) -> bool:
        stamp = _stat(folder).st_mtime_ns
        if self._folders[folder] == stamp:
            return False
        self._folders[folder] = stamp
        try:
            found = list(os.scandir(folder))
        except OSError:
            return False
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                if entry.path not in self._folders:
                    self._folders[entry.path] = _UNSEEN
                    self._quiet.add(entry.path)
                    self._look_into(entry.path)
            elif entry.name.endswith(".log"):
                self._files.setdefault(entry.path, _UNSEEN)
                self._quiet.discard(folder)
        return True


class _Cached(Generic[Value]):
    """A file that is replaced as a whole, decoded again only when it was."""

    def __init__(self, path: Path, type: type[Value]) -> None:
        self._path = str(path)
        self._decoder = msgspec.json.Decoder(type)
        self._stamp = (_UNSEEN, _UNSEEN)
        self.value: Value | None = None
        """The content when it was last looked at; None as long as there was none."""
        self.is_missing = False

    def refresh(self) -> None:
        found = _stat(self._path)
        self.is_missing = found.st_mtime_ns == _UNSEEN
        stamp = (found.st_mtime_ns, found.st_ino)
        if self.is_missing or stamp == self._stamp:
            return
        try:
            self.value = self._decoder.decode(files.read(self._path))
            self._stamp = stamp
        except (OSError, *DAMAGED):
            return


class _Nothing:
    """What `stat` says of a file that is not there."""

    st_mtime_ns = _UNSEEN
    st_size = _UNSEEN
    st_ino = _UNSEEN


def _stat(path: str) -> os.stat_result | _Nothing:
    try:
        return os.stat(path)
    except OSError:
        return _Nothing()
