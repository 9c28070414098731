"""Writes files so that a crash at any instant leaves them whole."""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bireme import errors

PRIVATE = 0o600
PRIVATE_FOLDER = 0o700

MOST_BYTES = 64 << 20
"""Of a file that is read as a whole; ours are far smaller."""
_LONGEST_LINE = 16 << 20

_serial = itertools.count()


def opened(path: str | Path) -> int:
    """Opens a plain file for reading; raises OSError for anything else, which it never waits for."""
    # Without O_NONBLOCK a pipe under the file's name would block us until something is written to it.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a plain file")
    return fd


def read(path: str | Path, most: int = MOST_BYTES) -> bytes:
    """Reads a whole file; raises OSError if it is not a plain one, or larger than what we would write."""
    with open(opened(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise OSError(errno.EOVERFLOW, f"it is larger than {most >> 20} MiB")
        return file.read(size)


def read_lines(path: str | Path) -> Iterator[bytes]:
    """Yields each line of a file without its end; one that is longer than any of ours is left out."""
    with open(opened(path), "rb") as file:
        while line := file.readline(_LONGEST_LINE):
            if len(line) < _LONGEST_LINE or line.endswith(b"\n"):
                yield line.removesuffix(b"\n")
                continue
            while line and not line.endswith(b"\n"):
                line = file.readline(_LONGEST_LINE)


def replace(path: Path, data: bytes) -> None:
    """Replaces a file atomically; when it returns, the new content survives a power cut."""
    with explained(path):
        _replace(path, data, durable=True)
        sync_folder(path.parent)


def replace_quickly(path: Path, data: bytes) -> None:
    """Replaces a file atomically; the new content survives a crash of ours, perhaps not a power cut."""
    with explained(path):
        _replace(path, data, durable=False)


def sweep(path: Path) -> None:
    """Removes what killed writers of this file left; the caller must exclude other writers."""
    for leftover in path.parent.glob(f".{path.name}.*.tmp"):
        with suppress(OSError):
            leftover.unlink()


def sync_folder(path: Path) -> None:
    """Makes names that were created, renamed or removed in a folder survive a power cut."""
    folder = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turns an OSError into an error of ours that says what to do."""
    try:
        yield
    except OSError as error:
        raise _explanation(error, path) from error


class Appender:
    """A file that only grows: each append is one write(2) at its end.

    Several processes may append to the same file. If a killed writer left half a line, the next append
    begins a new one, so that only that half line is lost.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None
        self._torn = False

    def append(self, data: bytes) -> None:
        """Appends whole lines; raises DiskFull if they do not fit, and then a part may be there.

        A line is there as soon as only its end-of-line does not fit: the next append begins with that.
        """
        with explained(self.path):
            if self.append_what_fits(data) < len(data) - 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def append_what_fits(self, data: bytes) -> int:
        """Appends the beginning of whole lines as far as the disk has room, and returns how many bytes."""
        with explained(self.path):
            fd = self._open()
            begin = b"\n" if self._torn else b""
            try:
                # One write(2): what is cut off is then the end of the last lines, never a hole between two.
                written = os.write(fd, begin + data)
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                written = 0
            self._torn = 0 < written < len(begin + data) or (self._torn and not written)
            return max(0, written - len(begin))

    def sync(self) -> None:
        """Makes what was appended survive a power cut."""
        with explained(self.path):
            os.fsync(self._open())

    @property
    def size(self) -> int:
        with explained(self.path):
            return os.fstat(self._open()).st_size

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> int:
        if self._fd is None:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._fd = os.open(self.path, flags, PRIVATE)
            size = os.fstat(self._fd).st_size
            self._torn = size > 0 and os.pread(self._fd, 1, size - 1) != b"\n"
        return self._fd


def _replace(path: Path, data: bytes, durable: bool) -> None:
    new = path.with_name(f".{path.name}.{os.getpid()}-{next(_serial)}.tmp")
    try:
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(fd, left) :]
            # Before the rename: after a power cut the name could otherwise stand for an empty file.
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        new.rename(path)
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise


def is_full(error: BaseException) -> bool:
    """Says whether an error is for lack of room on a disk."""
    return isinstance(error, errors.DiskFull) or (isinstance(error, OSError) and error.errno in _FULL)


def no_room_for(path: Path) -> errors.BiremeError:
    """What a write is answered with that found no room."""
    return _explanation(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), path)


def has_room(folder: Path) -> bool:
    """Says whether a disk has room for what a run writes in one go; True where that is not known."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return True
    return disk.f_bavail * disk.f_frsize >= _LEAST_ROOM


_LEAST_ROOM = 65536
_TOO_MANY = (errno.EMFILE, errno.ENFILE)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)
_MISSING = (errno.ENOENT, errno.ENOTDIR)


def _explanation(error: OSError, path: Path) -> errors.BiremeError:
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        # Of a run that is only being made, what is above its folder: that goes when the making fails.
        new = next((folder for folder in path.parents if folder.name.startswith(".new-")), None)
        lasting = path.parent if new is None else new.parent.parent
        return errors.DiskFull(
            f"cannot write {path}: {reason}",
            hint=f"make room: `df -h {lasting}` shows how full the disk is, and "
            "`bireme rm --ended` deletes what jobs that have ended left",
        )
    if error.errno in _REFUSED:
        return errors.NoAccess(
            f"cannot use {path}: {reason}", hint=f"look at its owner: `ls -ld {path.parent}`"
        )
    if error.errno == errno.ENAMETOOLONG:
        return errors.BadInput(f"{str(path)[:80]}...: {reason}", hint="choose a shorter name")
    if error.errno in _TOO_MANY:
        return errors.Unreachable(f"cannot use {path}: {reason}", hint="raise the limit: `ulimit -n 4096`")
    if error.errno in _MISSING:
        return errors.BadInput(f"{path} is missing; was its folder removed?")
    return errors.Unreachable(f"cannot use {path}: {reason}")
