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
from typing import Optional

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
        # The first file of this rank and attempt that no living process holds.
        for number in range(_MOST_HOLDERS):
            self.path = os.path.join(folder, file_name(rank, attempt, number))
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                os.close(self._fd)
            except OSError:
                break  # there are no locks on this file system
        else:
            raise OSError(errno.EMFILE, f"{_MOST_HOLDERS} processes are rank {rank} at once")
        self._map: Optional[mmap.mmap] = None
        self._can_map = True
        self._chunk = _FIRST_CHUNK
        # Places are counted from `_base`, where the mapped part begins; `_limit` is its length.
        self._base = self._at = self._limit = 0
        try:
            # What a kill or a power cut left half written is cut off before anything is put after it: a
            # reader stops at the first frame that is not whole.
            self._at = len(MAGIC)
            if os.pread(self._fd, self._at, 0) == MAGIC:
                for _, after in frames(self._fd, self._at):
                    self._at = after
                os.ftruncate(self._fd, self._at)
            else:
                os.ftruncate(self._fd, 0)
                if os.pwrite(self._fd, MAGIC, 0) < self._at:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
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
            self._reserve(base, length)
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

    def _reserve(self, offset: int, length: int) -> None:
        reserve = getattr(os, "posix_fallocate", None)  # macOS has none
        if reserve is not None:
            try:
                reserve(self._fd, offset, length)
                return
            except OSError as error:
                if error.errno not in _CANNOT_RESERVE:
                    raise
        place, end = os.fstat(self._fd).st_size, offset + length
        while place < end:
            place += os.pwrite(self._fd, _ZEROS[: end - place], place)

    def _unmap(self) -> None:
        if self._map is not None:
            self._map.close()
        self._map, self._limit = None, 0
