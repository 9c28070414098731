"""Runs of this machine that have ended: what they take on disk, and how they are deleted in safety."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from bireme import errors
from bireme.core import retention
from bireme.core.retention import EndedRun, Limits
from bireme.engine import control
from bireme.model.quantities import show_memory
from bireme.runs import checkpoints, directory, files, machine, records
from bireme.runs.directory import RunDirectory
from bireme.runs.ledger import Ledger

_BLOCK = 512
"""Bytes in the unit of `st_blocks`, whatever the file system's own blocks are."""


def ended(home: Path) -> tuple[EndedRun, ...]:
    """Every run of this machine that has ended."""
    here = machine.this_machine()
    rows = [(row, RunDirectory(home, row.id)) for row in Ledger(home).runs()]
    over = {row.id for row, run in rows if row.phase is not None and _has_ended(run)}
    needed = _mentioned(run for row, run in rows if row.id not in over)
    return tuple(
        _looked_at(run, row.finished or row.created, needed)
        for row, run in rows
        if row.id in over and row.host == here.host
    )


def removed(home: Path, runs: Iterable[EndedRun]) -> tuple[EndedRun, ...]:
    """Deletes runs that are still at their end, and returns which were; others are left as they are."""
    ledger = Ledger(home)
    done = []
    for one in runs:
        run = directory.find(home, *records.parse_run(one.id)) if _is_there(home, one) else None
        if run is None:
            continue
        try:
            # Held while it is deleted: nobody can resume it meanwhile, and whoever has it keeps it.
            lock = control.hold_ended(run)
            if lock is None:
                continue
            with lock:
                ledger.remove(run.id)
        except errors.BiremeError:
            continue  # it cannot be read: `bireme rm NAME` says what is wrong with it
        done.append(one)
    return tuple(done)


def swept(home: Path, limits: Limits, now: float) -> str:
    """Deletes what is beyond limits; returns a sentence about it, if there was anything."""
    done = removed(home, retention.beyond(ended(home), limits, now)) if limits else ()
    return f"removed {summed(done)}, as keep_age, keep_runs and keep_size say" if done else ""


def summed(runs: Iterable[EndedRun]) -> str:
    """`3 ended jobs (367 MiB)`."""
    found = tuple(runs)
    jobs = "1 ended job" if len(found) == 1 else f"{len(found)} ended jobs"
    return f"{jobs} ({show_memory(sum(one.size for one in found))})"


def _has_ended(run: RunDirectory) -> bool:
    """Whether nobody wants the run to go on, as far as its files can be read."""
    try:
        return not run.is_active()
    except errors.BiremeError:
        return False


def _looked_at(run: RunDirectory, at: float, needed: bytes) -> EndedRun:
    return EndedRun(
        id=f"{run.id.name}#{run.id.number}",
        ended=at,
        size=_size(run.path),
        has_checkpoints=_has_checkpoints(run.path),
        # With what may follow a folder's name: mnist/1 is not mnist/12.
        is_needed=any(os.fsencode(run.path) + end in needed for end in (b"/", b"@", b'"', b":")),
    )


def _mentioned(runs: Iterable[RunDirectory]) -> bytes:
    """What active runs were started with: BIREME_FROM in it may name the folder of another run."""
    found = []
    for run in runs:
        for name in ("job.json", "context.json"):
            try:
                found.append(files.read(run.path / name))
            except OSError:
                continue
    return b"\n".join(found)


def _has_checkpoints(folder: Path) -> bool:
    where = checkpoints.where(folder)
    inside = where if where.startswith(f"{folder}/") else str(folder / "checkpoints")
    try:
        with os.scandir(inside) as entries:
            return any(True for _ in entries)
    except OSError:
        return False


def _size(folder: Path) -> int:
    """What a folder takes on its disk; what is removed meanwhile counts as nothing."""
    total = 0
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            try:
                total += os.lstat(os.path.join(place, name)).st_blocks * _BLOCK
            except OSError:
                continue
    return total


def _is_there(home: Path, one: EndedRun) -> bool:
    name, number = records.parse_run(one.id)
    return RunDirectory(home, records.RunId(name, number or 1)).exists()
