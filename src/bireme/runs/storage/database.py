"""Opens the SQLite file, makes it, and makes it again when it is lost.

All that is in it can be made again from the run directories, so it need not survive a power cut: it is
written without waiting for the disk, and the first command after a start of the machine makes it anew. Each
piece of work opens it and closes it again, so it does not matter if it is replaced meanwhile or if we are
forked.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from bireme import errors
from bireme.model.decode_errors import DAMAGED
from bireme.runs import machine
from bireme.runs.run_files import Machine
from bireme.runs.storage import files

BUSY_LIMIT = 30.0
"""Seconds to wait for other commands, which need milliseconds."""
_PAUSE = 0.002

_VERSION = 1
_SCHEMA = """
CREATE TABLE runs (
    name TEXT NOT NULL, number INTEGER NOT NULL, host TEXT NOT NULL, kind TEXT NOT NULL,
    created REAL NOT NULL, phase TEXT, finished REAL, hidden INTEGER NOT NULL, version TEXT NOT NULL,
    PRIMARY KEY (name, number)
) WITHOUT ROWID;
CREATE TABLE claims (
    name TEXT NOT NULL, number INTEGER NOT NULL, record BLOB NOT NULL,
    PRIMARY KEY (name, number)
) WITHOUT ROWID;
CREATE TABLE tickets (
    name TEXT NOT NULL, number INTEGER NOT NULL, since REAL NOT NULL, seen REAL NOT NULL,
    demands BLOB NOT NULL,
    PRIMARY KEY (name, number)
) WITHOUT ROWID;
CREATE TABLE machine (boot TEXT NOT NULL);
"""

# A missing table or column (SQLITE_ERROR) counts as damage too: our statements are right, so the file is not.
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_SCHEMA)
_UNWRITTEN = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)

Result = TypeVar("Result")
Fill = Callable[[sqlite3.Connection], None]


class Database:
    """The file, and how to work in it."""

    def __init__(self, home: Path, here: Machine, fill: Fill) -> None:
        """`fill` puts into an empty one what the run directories say."""
        self.path = place(home)
        self._here = here
        self._fill = fill

    def run(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Does some work alone, in one transaction: all of it or nothing.

        The work may be done twice, if the file turns out to be damaged and is made anew.
        """
        try:
            return self._tried(work)
        except _Unusable as error:
            self._make_anew(even_if_sound=isinstance(error, _Undecodable))
        try:
            return self._tried(work)
        except _Unusable as error:
            raise errors.OurBug(f"{self.path} cannot be used: {error}", hint=f"`rm {self.path}*`") from error

    def _tried(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        with self._lock(fcntl.LOCK_SH), _explained(self.path), closing(self._connect()) as connection:
            self._check(connection)
            return _in_transaction(connection, work)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=BUSY_LIMIT, isolation_level=None)
        # Where the platform does not tell one start from the next, the file has to survive a power cut.
        connection.execute(f"PRAGMA synchronous = {'OFF' if self._here.boot else 'NORMAL'}")
        return connection

    def _check(self, connection: sqlite3.Connection) -> None:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version > _VERSION:
            raise errors.BadInput(
                f"{self.path} was made by a newer Bireme", hint="upgrade: `pip install --upgrade bireme`"
            )
        if version < _VERSION:
            raise _Unusable("it has no tables")
        if connection.execute("SELECT boot FROM machine").fetchone() != (self._here.boot,):
            raise _Unusable("it is from before the machine was started")

    def _make_anew(self, even_if_sound: bool) -> None:
        with self._lock(fcntl.LOCK_EX), _explained(self.path):
            with suppress(_Unusable, sqlite3.DatabaseError), closing(self._connect()) as connection:
                self._check(connection)
                if not even_if_sound and _is_sound(connection):
                    return  # another command was quicker
            for ending in ("", "-wal", "-shm", "-journal"):
                with suppress(FileNotFoundError):
                    os.unlink(f"{self.path}{ending}")
            with closing(self._connect()) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                _in_transaction(connection, self._create)

    def _create(self, connection: sqlite3.Connection) -> None:
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute("INSERT INTO machine VALUES (?)", (self._here.boot,))
        self._fill(connection)
        # Last, though the transaction makes the order irrelevant: a file with a version is complete.
        connection.execute(f"PRAGMA user_version = {_VERSION}")

    @contextmanager
    def _lock(self, how: int) -> Iterator[None]:
        """Keeps processes that use the file apart from one that replaces it.

        All pass a gate. A process that is to replace the file shuts it while it waits for those inside: they
        leave and no new one enters, so its turn comes however many use the file all the time.
        """
        with ExitStack() as inside:
            with _locked(self.path.with_name(f"{self.path.name}.gate"), how):
                inside.enter_context(_locked(self.path.with_name(f"{self.path.name}.lock"), how))
            yield


def place(home: Path) -> Path:
    """Returns where the file is: in the home, or on a local disk where machines share the home.

    SQLite cannot share a file between machines, and a ledger is of one machine anyway.
    """
    if not machine.is_shared(home):
        return home / "bireme.db"
    folder = Path(f"/tmp/bireme-{os.getuid()}")
    with files.explained(folder):
        folder.mkdir(mode=files.PRIVATE_FOLDER, exist_ok=True)
        if folder.lstat().st_uid != os.getuid():
            raise errors.NoAccess(
                f"{folder} belongs to another user", hint=f"have it removed: `ls -ld {folder}`"
            )
    return folder / f"{hashlib.sha256(os.fsencode(home)).hexdigest()[:16]}.db"


class _Unusable(Exception):
    """The file has to be made anew."""


class _Undecodable(_Unusable):
    """A record in it is damaged, of which SQLite knows nothing."""


def _is_sound(connection: sqlite3.Connection) -> bool:
    for table in ("runs", "claims", "tickets"):
        connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    return bool(connection.execute("PRAGMA quick_check").fetchone() == ("ok",))


def _in_transaction(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], Result]) -> Result:
    connection.execute("BEGIN IMMEDIATE")
    try:
        result = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return result


@contextmanager
def _locked(path: Path, how: int) -> Iterator[None]:
    with files.explained(path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, files.PRIVATE)
    try:
        _wait_for(fd, how, path)
        yield
    finally:
        os.close(fd)


def _wait_for(fd: int, how: int, path: Path) -> None:
    waited = 0.0
    while True:
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if waited > BUSY_LIMIT:
                raise errors.Unreachable(
                    f"{path} has been locked for {BUSY_LIMIT:.0f} s",
                    hint=f"see by which process: `fuser {path}`",
                ) from error
            time.sleep(_PAUSE)
            waited += _PAUSE


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except DAMAGED as error:
        raise _Undecodable(str(error)) from error
    except sqlite3.DatabaseError as error:
        # The low byte is the kind of error, the rest says more.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in _DAMAGED:
            raise _Unusable(str(error)) from error
        # SQLite has several names for a write that failed; whether there is room tells which was meant.
        if code == sqlite3.SQLITE_FULL or (code in _UNWRITTEN and not files.has_room(path.parent)):
            raise errors.DiskFull(
                f"cannot write {path}: {error}", hint=f"make room: `df -h {path.parent}`"
            ) from error
        if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            raise errors.NoAccess(
                f"cannot use {path}: {error}", hint=f"look: `ls -ld {path.parent}`"
            ) from error
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise errors.Unreachable(
                f"{path} has been busy for {BUSY_LIMIT:.0f} s", hint=f"see by which process: `fuser {path}`"
            ) from error
        raise errors.Unreachable(f"cannot use {path}: {error}") from error
