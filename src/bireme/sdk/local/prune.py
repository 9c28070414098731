"""Deletes runs of this machine that have ended, in safety, and says what they take on disk."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bireme import errors
from bireme.core.machine import retention
from bireme.core.machine.retention import EndedRun, Limits
from bireme.model.quantities import show_memory
from bireme.model.status import Phase
from bireme.runner import control
from bireme.runs import directory, machine, run_checkpoints, run_files
from bireme.runs.directory import RunDirectory
from bireme.runs.ledger import Ledger
from bireme.runs.storage import files
from bireme.sdk.submissions import ORIGIN

_BLOCK = 512
"""Bytes in the unit of `st_blocks`, whatever the file system's own blocks are."""


def ended(home: Path) -> tuple[EndedRun, ...]:
    """Every run of this machine that has ended."""
    here = machine.this_machine()
    rows = [(row, RunDirectory(home, row.id)) for row in Ledger(home).runs()]
    over = set()
    for row, run in rows:
        with suppress(errors.BiremeError):  # what cannot be read counts as going to continue
            if row.phase is not None and not run.is_active():
                over.add(row.id)
    # One that failed may be resumed, and then begins where it began before, if it has saved nothing.
    needing = [run for row, run in rows if row.id not in over or row.phase is Phase.FAILED]
    started_with = []  # which may name the folder of another run
    for run in needing:
        for name in ("job.json", "context.json"):
            with suppress(OSError):
                started_with.append(files.read(run.path / name))
    origins = tuple(folder for run in needing for folder in _origins(run))
    needed = _Needed(b"\n".join(started_with), origins)
    return tuple(
        EndedRun(
            id=f"{run.id.name}#{run.id.number}",
            ended=row.finished or row.created,
            size=_size(run.path),
            has_checkpoints=_has_checkpoints(run.path),
            is_needed=needed.covers(run.path),
        )
        for row, run in rows
        if row.id in over and row.host == here.host
    )


def removed(home: Path, runs: Iterable[EndedRun]) -> tuple[EndedRun, ...]:
    """Deletes runs that are still at their end, and returns which were; others are left as they are."""
    ledger = Ledger(home)
    done = []
    for ended_run in runs:
        try:
            name, number = run_files.parse_run(ended_run.id)
            if not RunDirectory(home, run_files.RunId(name, number or 1)).exists():
                continue
            run = directory.find(home, name, number)
            # Held while it is deleted: no command can resume it meanwhile. A runner that has it keeps it.
            lock = control.hold_ended(run)
            if lock is None:
                continue
            with lock:
                if not ledger.remove(run.id, partial(control.goes_on, run)):
                    continue
        except errors.BiremeError:
            continue  # another command removed it, or it cannot be read: `bireme rm NAME` says what is wrong
        done.append(ended_run)
    return tuple(done)


def swept(home: Path, limits: Limits, now: float) -> str:
    """Deletes what is beyond limits; returns a sentence about it, if there was anything.

    What goes wrong is left for the next time: the caller has started a job, and is to follow it.
    """
    if not limits:
        return ""
    try:
        runs = ended(home)
        done = removed(home, retention.beyond(runs, limits, now))
    except (OSError, errors.BiremeError):
        return ""
    if not done:
        return ""
    why = retention.exceeded(runs, limits, now)
    names = [f"keep_{name}" for name in ("age", "runs", "size") if any(name in why[run.id] for run in done)]
    return f"removed {summed(done)}, as {' and '.join(names)} {'says' if len(names) == 1 else 'say'}"


def summed(runs: Iterable[EndedRun]) -> str:
    """`3 ended jobs (367 MiB)`."""
    found = tuple(runs)
    jobs = "1 ended job" if len(found) == 1 else f"{len(found)} ended jobs"
    return f"{jobs} ({show_memory(sum(run.size for run in found))})"


class _Needed(NamedTuple):
    """The origins of runs that are active, or may be resumed."""

    words: bytes
    """All of it: a folder may be named anywhere in it."""
    origins: tuple[str, ...]
    """The folders that BIREME_FROM names, without symbolic links."""

    def covers(self, folder: Path) -> bool:
        real = os.path.realpath(folder)
        # With what may follow a folder's name: mnist/1 is not mnist/12.
        named = any(os.fsencode(folder) + end in self.words for end in (b"/", b"@", b'"', b":"))
        return named or any(f"{origin}/".startswith(f"{real}/") for origin in self.origins)


def _origins(run: RunDirectory) -> list[str]:
    """The real folders that a run was started from."""
    try:
        job, environment = run.desired().job, run.context().environment
    except errors.BiremeError:
        return []
    given = [
        variable.value
        for role in job.roles
        for container in role.pod.containers
        for variable in container.env
        if variable.name == ORIGIN
    ]
    given.append(environment.get(ORIGIN, ""))
    folders = [origin.rpartition("@")[0] or origin for origin in given if origin.startswith("/")]
    return [os.path.realpath(folder) for folder in folders]


def _has_checkpoints(folder: Path) -> bool:
    where = run_checkpoints.where(folder)
    inside = where if where.startswith(f"{folder}/") else str(folder / "checkpoints")
    try:
        with os.scandir(inside) as entries:
            return any(True for _ in entries)
    except OSError:
        return False


def _size(folder: Path) -> int:
    """The size of a folder on its disk; what is removed meanwhile counts as nothing."""
    total = 0
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            try:
                total += os.lstat(os.path.join(place, name)).st_blocks * _BLOCK
            except OSError:
                continue
    return total
