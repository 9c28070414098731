"""An index of the run directories, so that a list of runs is quick."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import msgspec
from msgspec import Struct

from bireme import errors, kinds
from bireme.model.decode_errors import DAMAGED
from bireme.model.status import Phase
from bireme.runs import directory
from bireme.runs.directory import RunDirectory
from bireme.runs.run_files import Machine, RunId
from bireme.runs.storage import files

_SELECT = "SELECT name, number, host, kind, created, phase, finished, hidden, version FROM runs"
_REPLACE = "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_DELETE = "DELETE FROM runs WHERE name = ? AND number = ?"


class RunRow(Struct, frozen=True):
    """What a list of runs shows of each."""

    id: RunId
    path: Path
    host: str
    kind: str | None
    created: float
    phase: Phase | None
    """None if the run's files cannot be read."""
    finished: float | None
    hidden: bool
    """Its time to live after the end is over."""
    version: str
    """Changes with its status file."""

    @property
    def is_active(self) -> bool:
        return self.phase is not None and not self.phase.is_final


def rows(connection: sqlite3.Connection, home: Path) -> tuple[RunRow, ...]:
    """Returns all runs, the newest first, after a look at what changed in the run directories."""
    known = {row.id: row for row in (_row(home, values) for values in connection.execute(_SELECT))}
    found = {run.id: run for run in directory.every(home)}
    for id in known.keys() - found.keys():
        forget(connection, id)
    current = []
    for id, run in found.items():
        row = known.get(id)
        if row is None or row.version != _version(run):
            row = record(connection, run)
        current.append(row)
    return tuple(sorted(current, key=lambda row: (-row.created, row.id)))


def scanned(home: Path) -> tuple[RunRow, ...]:
    """Returns the same from the run directories alone, for a disk on which nothing can be written."""
    found = [_looked_up(run) for run in directory.every(home)]
    return tuple(sorted(found, key=lambda row: (-row.created, row.id)))


def record(connection: sqlite3.Connection, run: RunDirectory) -> RunRow:
    """Puts what the run's files say now into the index."""
    row = _looked_up(run)
    connection.execute(
        _REPLACE,
        (
            row.id.name,
            row.id.number,
            row.host,
            row.kind or "",
            row.created,
            row.phase,
            row.finished,
            row.hidden,
            row.version,
        ),
    )
    return row


def forget(connection: sqlite3.Connection, id: RunId) -> None:
    connection.execute(_DELETE, (id.name, id.number))


class _JobHead(Struct, frozen=True):
    kind: str

    def __post_init__(self) -> None:
        if self.kind not in kinds.BY_NAME:
            raise ValueError(f"{self.kind!r} is no kind of job")


class _DesiredHead(Struct, frozen=True):
    job: _JobHead


class _ContextHead(Struct, frozen=True):
    """Only what the index needs, because environments are long."""

    machine: Machine
    created: float


def _looked_up(run: RunDirectory) -> RunRow:
    version = _version(run)  # before the status is read: if it is replaced meanwhile, the row counts as old
    row = RunRow(run.id, run.path, "", None, 0.0, None, None, False, version)
    try:
        context = msgspec.json.decode(files.read(run.path / "context.json"), type=_ContextHead)
        row = msgspec.structs.replace(row, host=context.machine.host, created=context.created)
        head = msgspec.json.decode(files.read(run.path / "job.json"), type=_DesiredHead)
        status = run.status()
    except (OSError, *DAMAGED, errors.BiremeError):
        return row
    return msgspec.structs.replace(
        row, kind=head.job.kind, phase=status.phase, finished=status.completed, hidden=status.expired
    )


def _version(run: RunDirectory) -> str:
    try:
        found = os.stat(run.path / "status.json")
    except OSError:
        return ""
    return f"{found.st_mtime_ns}-{found.st_ino}"


def _row(home: Path, values: tuple[str, int, str, str, float, str | None, float | None, int, str]) -> RunRow:
    name, number, host, kind, created, phase, finished, hidden, version = values
    run = RunDirectory(home, RunId(name, number))
    return RunRow(
        id=run.id,
        path=run.path,
        host=host,
        kind=kind if kind in kinds.BY_NAME else None,
        created=created,
        phase=next((known for known in Phase if known == phase), None),
        finished=finished,
        hidden=bool(hidden),
        version=version,
    )
