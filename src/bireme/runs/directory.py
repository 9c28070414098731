"""Reads and changes what is in the directory of a run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from bireme import errors
from bireme.core import suspend
from bireme.model.decisions import Event
from bireme.model.decode_errors import DAMAGED
from bireme.model.status import Status
from bireme.runs.journal import Journal
from bireme.runs.run_files import (
    Desired,
    RecordedEvent,
    RunContext,
    RunId,
    RunOptions,
    is_name,
    is_number,
    parse_run,
)
from bireme.runs.storage import disk_room, files, locks
from bireme.runs.storage.locks import FileLock
from bireme.runs.wake import Wake, make_wake, send_wake

Value = TypeVar("Value")


class RunDirectory:
    """One run's directory, `<home>/runs/<name>/<number>`.

    | file | holds | written by |
    | --- | --- | --- |
    | job.json | the desired job | commands, through `edit` |
    | status.json | the status: the truth | the runner |
    | context.json | working directory, interpreter, environment | `create`, never again |
    | events.jsonl, journal.jsonl | what happened | the runner, appending |
    | claim.json | what the run holds in the ledger | the ledger |
    | logs/ | a file per replica and container | the runner |
    | lock | held by the runner while it lives | |
    | wake | a pipe that wakes the runner | any command |
    """

    def __init__(self, home: Path, id: RunId) -> None:
        self.home = home
        self.id = id
        self.path = runs_folder(home) / id.name / str(id.number)

    def __repr__(self) -> str:
        return f"RunDirectory({str(self.path)!r})"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def journal_path(self) -> Path:
        return self.path / "journal.jsonl"

    @property
    def claim_path(self) -> Path:
        return self.path / "claim.json"

    def exists(self) -> bool:
        return self.path.is_dir()

    def desired(self) -> Desired:
        found = self._read("job.json", Desired)
        for role in found.job.roles:
            if all(container.name != role.main for container in role.pod.containers):
                raise errors.OurBug(
                    f"{self.path / 'job.json'} is damaged: {role.name} has no container {role.main!r}",
                    hint=f"remove the run with `bireme rm {self.id}`; its logs are in {self.logs}",
                )
        return found

    def edit(self, change: Callable[[Desired], Desired]) -> Desired:
        """Changes the desired job and wakes the runner; two editors at once both have their change.

        `change` may be given a newer job than the caller has seen. What changes nothing is not written.
        """
        path = self.path / "job.json"
        with locks.wait(self.path / "edit", f"editing {self.id}"):
            old = self.desired()
            new = msgspec.structs.replace(change(old), generation=old.generation)
            if new == old:
                return old
            files.sweep(path)
            new = msgspec.structs.replace(new, generation=old.generation + 1)
            try:
                files.replace(path, msgspec.json.encode(new))
            except errors.DiskFull:
                if not disk_room.release_reserve(self.path):
                    raise
                files.replace(path, msgspec.json.encode(new))
        self.wake()
        return new

    def status(self) -> Status:
        return self._read("status.json", Status)

    def write_status(self, status: Status) -> None:
        """Replaces the status, durably; only for the holder of the run."""
        files.replace(self.path / "status.json", msgspec.json.encode(status))

    def context(self) -> RunContext:
        context = self._read("context.json", RunContext)
        if context.format == 1:
            # Its options stand flat among the other fields, so the same file reads as them.
            return replace(context, options=self._read("context.json", RunOptions))
        return context

    def append_events(self, events: Iterable[Event], now: float) -> None:
        recorded = [RecordedEvent(now, event.type, event.reason, event.message) for event in events]
        if recorded:
            journal = self._events()
            try:
                journal.append(*recorded)
            finally:
                journal.close()

    def events(self) -> tuple[RecordedEvent, ...]:
        """Returns what was told, oldest first; identical events in a row are one with a count."""
        merged: list[RecordedEvent] = []
        for event in self._events().read():
            if merged and event.repeats(merged[-1]):
                event = msgspec.structs.replace(event, count=merged.pop().count + event.count)
            merged.append(event)
        return tuple(merged)

    def hold(self) -> FileLock | None:
        """Takes the run for this process until it ends (see `Lock`), or returns None if another has it."""
        lock = locks.hold(self.path / "lock")
        if lock is not None:
            for name in ("status.json", "claim.json"):
                files.sweep(self.path / name)
        return lock

    def is_held(self) -> bool:
        """Says whether the run has a living runner."""
        return locks.is_held(self.path / "lock")

    def is_active(self) -> bool:
        """Says whether the run has not ended: suspended and queued ones are active too.

        So is one that failed and was resumed, even before its runner has heard of that.
        """
        status = self.status()
        return not status.phase.is_final or suspend.is_called_back(self.desired().job, status)

    def wake(self) -> bool:
        """Makes the runner look again; returns whether there was one to be woken. Never blocks."""
        return send_wake(self.path / "wake")

    def wake_fd(self) -> Wake:
        """Opens the runner's end: readable when woken, until `drain`."""
        return Wake(self.path / "wake")

    def delete(self, unless: Callable[[], bool] = lambda: False) -> bool:
        """Removes the directory; a crash meanwhile leaves either the run or nothing that looks like one.

        It is for the caller to see that no process holds the run. `unless` is asked when no command can
        resume it any more; returns whether it is gone.
        """
        with files.explained(self.path), door(self.home):
            if self.exists() and unless():
                return False
            with suppress(FileNotFoundError):
                self.path.rename(self.path.with_name(f".gone-{self.id.number}-{os.getpid()}"))
            _clear(self.path.parent)
            with suppress(OSError):
                self.path.parent.rmdir()
        return True

    def _events(self) -> Journal[RecordedEvent]:
        return Journal(self.path / "events.jsonl", RecordedEvent)

    def _read(self, name: str, type: type[Value]) -> Value:
        path = self.path / name
        if not self.exists():
            raise errors.BadInput(f"there is no run {self.id}", hint="`bireme ps --all` lists them")
        advice = f"remove the run with `bireme rm {self.id}`; its logs are in {self.logs}"
        try:
            with files.explained(path):
                return msgspec.json.decode(files.read(path), type=type)
        except errors.BadInput as error:
            raise errors.OurBug(f"{path} is missing", hint=advice) from error
        except DAMAGED as error:
            raise errors.OurBug(f"{path} is damaged: {error}", hint=advice) from error


def runs_folder(home: Path) -> Path:
    return home / "runs"


def create(home: Path, desired: Desired, context: RunContext) -> tuple[RunDirectory, FileLock]:
    """Makes the next run of the job's name, and holds it; refuses a name of which a run is active.

    The directory appears whole or not at all. The lock is held before any command can see the run, so that no
    other takes it for one whose runner died; hand it to the runner (see `Lock`) or close it.
    """
    name, number = parse_run(desired.job.name)
    if number is not None:
        raise errors.BadInput(f"a job cannot be called {desired.job.name!r}: Bireme numbers its runs itself")
    folder = runs_folder(home) / name
    with door(home), files.explained(folder):
        folder.mkdir(mode=files.PRIVATE_FOLDER, exist_ok=True)
        _clear(folder)
        for other in active(home, name):
            raise still_active(other, "end it with `bireme rm {}`, or choose another name with `--name`")
        last = newest(home, name)
        run = RunDirectory(home, RunId(name, last.id.number + 1 if last else 1))
        try:
            return run, _made(run, desired, context)
        except BaseException:
            with suppress(OSError):
                folder.rmdir()  # it stays if another run is in it
            raise


def newest(home: Path, name: str) -> RunDirectory | None:
    """Returns the run of that name with the highest number."""
    found = _numbers(runs_folder(home) / name)
    return RunDirectory(home, RunId(name, max(found))) if found else None


def active(home: Path, name: str) -> tuple[RunDirectory, ...]:
    """Returns the runs of that name that have not ended, the newest first; to act on them, hold the door."""
    numbers = sorted(_numbers(runs_folder(home) / name), reverse=True)
    runs = [RunDirectory(home, RunId(name, number)) for number in numbers]
    return tuple(run for run in runs if _is_active(run, is_newest=run is runs[0]))


def still_active(run: RunDirectory, hint: str) -> errors.BadInput:
    """The error that a run stands in the way of another of its name; `{}` in the hint becomes its name."""
    last = newest(run.home, run.id.name)
    # A name alone means the newest run.
    id = f"{run.id.name}#{run.id.number}" if last is not None and last.id != run.id else str(run.id)
    phase = run.status().phase
    shown = f"{phase}, and resumed" if phase.is_final else str(phase)
    return errors.BadInput(f"{id} is still active ({shown})", hint=hint.format(id))


def door(home: Path) -> AbstractContextManager[None]:
    """Holds the lock of all commands that create, remove or resume a run: no other does so meanwhile."""
    # That is quick, so one lock serves all names.
    folder = runs_folder(home)
    with files.explained(folder):
        folder.mkdir(mode=files.PRIVATE_FOLDER, parents=True, exist_ok=True)
    return locks.wait(folder / ".lock", "creating or removing a run")


def find(home: Path, name: str, number: int | None) -> RunDirectory:
    """Returns the run that is meant, or raises BadInput that says so."""
    run = newest(home, name) if number is None else RunDirectory(home, RunId(name, number))
    if run is None or not run.exists():
        import difflib  # here, because it is hardly ever needed

        text = name if number is None else str(RunId(name, number))
        near = difflib.get_close_matches(name, {run.id.name for run in every(home)}, n=1)
        hint = f"did you mean {near[0]}?" if near else "`bireme ps --all` lists them"
        raise errors.BadInput(f"there is no run {text}", hint=hint)
    return run


def every(home: Path) -> tuple[RunDirectory, ...]:
    """Returns every run, by name and number."""
    with files.explained(runs_folder(home)), suppress(FileNotFoundError):
        names = sorted(entry.name for entry in os.scandir(runs_folder(home)) if is_name(entry.name))
        found = [(name, number) for name in names for number in sorted(_numbers(runs_folder(home) / name))]
        return tuple(RunDirectory(home, RunId(name, number)) for name, number in found)
    return ()


def _made(run: RunDirectory, desired: Desired, context: RunContext) -> FileLock:
    new = run.path.with_name(f".new-{os.getpid()}")
    new.mkdir(mode=files.PRIVATE_FOLDER)
    lock = locks.hold(new / "lock")
    if lock is None:  # impossible: no other process knows this folder
        raise errors.OurBug(f"{new} is locked already")
    try:
        (new / "logs").mkdir(mode=files.PRIVATE_FOLDER)
        make_wake(new / "wake")
        files.replace(new / "context.json", msgspec.json.encode(context))
        files.replace(new / "status.json", msgspec.json.encode(Status()))
        files.replace(new / "job.json", msgspec.json.encode(desired))
        new.rename(run.path)
        files.sync_folder(run.path.parent)
        files.sync_folder(run.path.parent.parent)
    except BaseException:
        lock.close()
        shutil.rmtree(new, ignore_errors=True)
        raise
    return lock


def _numbers(folder: Path) -> list[int]:
    with files.explained(folder), suppress(FileNotFoundError, NotADirectoryError):
        return [int(entry.name) for entry in os.scandir(folder) if is_number(entry.name)]
    return []


def _is_active(run: RunDirectory, is_newest: bool) -> bool:
    try:
        return run.is_active()
    except errors.BiremeError:
        # It was removed a moment ago, or is damaged: an old one keeps no command from starting another.
        if is_newest and run.exists():
            raise
        return run.is_held()


def _clear(folder: Path) -> None:
    """Removes what killed commands left half made or half removed; only for the holder of the door."""
    for pattern in (".new-*", ".gone-*"):
        for leftover in folder.glob(pattern):
            shutil.rmtree(leftover, ignore_errors=True)
