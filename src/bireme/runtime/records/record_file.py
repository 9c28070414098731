"""The file into which one process writes its records, with room reserved before it is written to.

The file is mapped into memory, and what is put there is the kernel's at once: it outlives a kill -9 of the
process without any flush. A mapped page for which the disk has no room would kill the process with SIGBUS, so
room is reserved first. Where files cannot be mapped, they are written to.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import zlib
from typing import Optional, Tuple

from .record_format import ALIGNMENT, FRAME, LARGEST, MAGIC
from .record_reader import file_name, frames

_FIRST_CHUNK = 1 << 16
_LARGEST_CHUNK = 1 << 20
_MOST_HOLDERS = 1000
_PAGE = mmap.ALLOCATIONGRANULARITY
_CANNOT_RESERVE = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.ENODEV)
_ZEROS = bytes(1 << 16)


class RecordFile:
    """The file of one rank of one attempt, after the last good record in it.

    Everything may raise OSError; what was put before stays good, and `put` may be tried again later.
    """

    def __init__(self, folder: str, rank: int, attempt: int) -> None:
        os.makedirs(folder, exist_ok=True)
        self.path, self._fd = _held(folder, rank, attempt)
        self._map: Optional[mmap.mmap] = None
        self._can_map = True
        self._chunk = _FIRST_CHUNK
        # Places are counted from `_base`, where the mapped part begins; `_limit` is its length.
        self._base = self._at = self._limit = 0
        try:
            self._at = _end_of_good(self._fd)
        except OSError:
            os.close(self._fd)
            raise

    def put(self, payload: bytes) -> None:
        """Appends a record: once this returns, a kill of the process does not lose it."""
        at = self._at
        begin = at + 8
        end = begin + len(payload)
        held = self._map
        if end > self._limit or held is None:
            self._put_beyond(payload)
            return
        held[begin:end] = payload
        # The payload first, the length last: a reader, or the next writer after a kill, takes a length for
        # the promise that the payload is whole.
        FRAME.pack_into(held, at, zlib.crc32(payload), len(payload))
        self._at = (end + 7) & -8

    def is_removed(self) -> bool:
        """Whether the file was removed, so that nothing will ever read what is put there."""
        return os.fstat(self._fd).st_nlink == 0

    def close(self) -> None:
        """Gives back the room that was not used."""
        self._unmap()
        try:
            os.ftruncate(self._fd, self._base + self._at)
        finally:
            os.close(self._fd)

    def abandon(self) -> None:
        """Lets go of a file that belongs to the process which this one was forked from."""
        self._unmap()
        os.close(self._fd)

    def _put_beyond(self, payload: bytes) -> None:
        """Puts a record for which the mapped part has no room: maps the next part, or writes it."""
        if len(payload) > LARGEST:
            raise OSError(errno.EFBIG, "the record is too large")
        if self._can_map:
            place = self._base + self._at
            base = place - place % _PAGE
            length = max(self._chunk, place - base + FRAME.size + len(payload) + ALIGNMENT)
            length += -length % _PAGE
            # Reserved before it is mapped, and mapped before the old part is given up: whatever fails here,
            # what was put stays where it is, and the next try begins from the same state.
            _reserve(self._fd, base, length)
            try:
                held = mmap.mmap(self._fd, length, offset=base)
            except OSError:
                self._can_map = False
            else:
                self._unmap()
                self._map, self._base, self._at, self._limit = held, base, place - base, length
                self._chunk = min(2 * self._chunk, _LARGEST_CHUNK)
                self.put(payload)
                return
        frame = FRAME.pack(zlib.crc32(payload), len(payload)) + payload
        if os.pwrite(self._fd, frame, self._base + self._at) < len(frame):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._at += len(frame) + -len(frame) % ALIGNMENT

    def _unmap(self) -> None:
        if self._map is not None:
            self._map.close()
        self._map, self._limit = None, 0


def _held(folder: str, rank: int, attempt: int) -> Tuple[str, int]:
    """Opens the first file of this rank and attempt that no living process holds."""
    for number in range(_MOST_HOLDERS):
        path = os.path.join(folder, file_name(rank, attempt, number))
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return path, fd
        except BlockingIOError:
            os.close(fd)
        except OSError:
            return path, fd  # there are no locks on this file system
    raise OSError(errno.EMFILE, f"{_MOST_HOLDERS} processes are rank {rank} at once")


def _end_of_good(fd: int) -> int:
    """Cuts off what a kill or a power cut left half written, and returns where to continue."""
    end = len(MAGIC)
    if os.pread(fd, end, 0) == MAGIC:
        for _, after in frames(fd, end):
            end = after
        os.ftruncate(fd, end)
        return end
    os.ftruncate(fd, 0)
    if os.pwrite(fd, MAGIC, 0) < end:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return end


def _reserve(fd: int, offset: int, length: int) -> None:
    reserve = getattr(os, "posix_fallocate", None)  # macOS has none
    if reserve is not None:
        try:
            reserve(fd, offset, length)
            return
        except OSError as error:
            if error.errno not in _CANNOT_RESERVE:
                raise
    place, end = os.fstat(fd).st_size, offset + length
    while place < end:
        place += os.pwrite(fd, _ZEROS[: end - place], place)
