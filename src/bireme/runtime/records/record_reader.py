"""Reads the records of a file as far as they are whole, and later what came since."""

from __future__ import annotations

import os
import re
import stat
import zlib
from typing import Iterator, List, NamedTuple, Tuple

from .record_format import (
    ALIGNMENT,
    FRAME,
    LARGEST,
    LARGEST_SCALARS,
    MAGIC,
    SCALARS_BEGIN,
    Record,
    RecordDecoder,
    is_large,
    is_length_of_scalars,
    step_of,
)

_BLOCK = 1 << 20
_TAIL = 1 << 16
_FARTHEST = 1 << 26
"""Bytes before the end of a file in which its last step is looked for."""
_NAME = re.compile(r"([0-9]+)-([0-9]+)(?:-([0-9]+))?\.records")


class RecordPath(NamedTuple):
    """A file of records, and whose it is."""

    rank: int
    attempt: int
    number: int
    """0, or more where several processes were the same rank of the same attempt at once."""
    path: str


def file_name(rank: int, attempt: int, number: int = 0) -> str:
    return f"{rank}-{attempt}-{number}.records" if number else f"{rank}-{attempt}.records"


def files(folder: str) -> Tuple[RecordPath, ...]:
    """The files of a folder, ordered by rank and attempt; none if there is no such folder."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    found = [(name, match) for name in names if (match := _NAME.fullmatch(name))]
    return tuple(
        sorted(
            RecordPath(int(match[1]), int(match[2]), int(match[3] or 0), os.path.join(folder, name))
            for name, match in found
        )
    )


class RecordReader:
    """Reads a file that may still be written, each record once."""

    def __init__(self, path: str, leaves_out_large: bool = False) -> None:
        """Images and histograms can be left out."""
        self.path = path
        self._leaves_out_large = leaves_out_large
        self._file: Tuple[int, int] = (0, 0)
        self._offset = 0
        self._decoder = RecordDecoder()

    def read(self) -> List[Record]:
        """Returns the records that came since the last call; none while the file is not there."""
        return list(self.each())

    def each(self) -> Iterator[Record]:
        """Yields the same, without holding them all in memory."""
        try:
            # A pipe under the file's name must not block us until something is written to it.
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                return
            if self._file != (found.st_dev, found.st_ino):
                # The file was removed and made again: it is read from its beginning.
                self._file = (found.st_dev, found.st_ino)
                self._offset, self._decoder = 0, RecordDecoder()
            if self._offset == 0:
                if os.pread(fd, len(MAGIC), 0) != MAGIC:
                    return
                self._offset = len(MAGIC)
            for payload, end in frames(fd, self._offset):
                # Before it is handed out: the caller may stop here, and must not get it again.
                self._offset = end
                if self._leaves_out_large and is_large(payload):
                    continue
                record = self._decoder.decode(payload)
                if record is not None:
                    yield record
        finally:
            os.close(fd)


def frames(fd: int, offset: int) -> Iterator[Tuple[bytes, int]]:
    """Yields each whole payload from an offset on, and where the next frame begins.

    It stops at the first one that is not whole. In a file that is being written that may be whole a moment
    later: on some processors the length is seen before what it stands for.
    """
    wanted = _BLOCK
    # No more than there is: what a damaged length asks for would be allocated before it is missed.
    while data := os.pread(fd, min(wanted, max(_BLOCK, os.fstat(fd).st_size - offset)), offset):
        at, needed = 0, FRAME.size
        while at + FRAME.size <= len(data):
            checksum, length = FRAME.unpack_from(data, at)
            if not 0 < length <= LARGEST:
                return
            begin, end = at + FRAME.size, at + FRAME.size + length
            if end > len(data):
                needed = end - at
                break
            payload = data[begin:end]
            if zlib.crc32(payload) != checksum:
                return
            at = end + -end % ALIGNMENT
            yield payload, offset + at
        if at == 0 and needed <= wanted:
            return  # so much was asked for: the file ends within the frame
        wanted = max(_BLOCK, needed)
        offset += at


def last_step(path: str) -> int:
    """The last step whose numbers are in a file, or -1; not much more than the end of the file is read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return -1
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return -1
        # Where the last byte is that is not zero: a writer reserves room ahead.
        end = os.fstat(fd).st_size
        while end > 0:
            block = max(0, end - _BLOCK)
            if content := os.pread(fd, end - block, block).rstrip(b"\0"):
                end = block + len(content)
                break
            end = block
        begin = max(len(MAGIC), end - _TAIL)
        begin -= begin % ALIGNMENT
        found = max(_steps(os.pread(fd, end - begin + _TAIL, begin)), default=-1)
        return found if found >= 0 else _last_step_before(fd, begin)
    except OSError:
        return -1
    finally:
        os.close(fd)


def _steps(data: bytes) -> Iterator[int]:
    """The steps of the scalars in a piece of a file that may begin within a frame."""
    at = 0
    while at + FRAME.size <= len(data):
        checksum, length = FRAME.unpack_from(data, at)
        end = at + FRAME.size + length
        if not 0 < length <= len(data) - at or zlib.crc32(data[at + FRAME.size : end]) != checksum:
            at += ALIGNMENT
            continue
        step = step_of(data[at + FRAME.size : end])
        if step is not None:
            yield step
        at = end + -end % ALIGNMENT


def _last_step_before(fd: int, end: int) -> int:
    """The last step before some place: an image that was reported last can be longer than any tail."""
    spent, farthest = 0, end - _FARTHEST
    while end > len(MAGIC) and end > farthest:
        begin = max(0, end - _BLOCK)
        data = os.pread(fd, end - begin + FRAME.size + LARGEST_SCALARS, begin)
        found = -1
        for payload in _likely(data, end - begin):
            checksum, length = FRAME.unpack_from(data, payload - FRAME.size)
            spent += length
            if spent > _FARTHEST:
                return found  # made to look like scalars everywhere
            content = data[payload : payload + length]
            if zlib.crc32(content) == checksum:
                step = step_of(content)
                found = max(found, -1 if step is None else step)
        if found >= 0:
            return found
        end = begin
    return -1


def _likely(data: bytes, limit: int) -> Iterator[int]:
    """Where in a piece of a file the payload of scalars seems to begin; quick, because the piece is large."""
    at = data.find(SCALARS_BEGIN, FRAME.size)
    while 0 <= at < limit + FRAME.size:
        if at % ALIGNMENT == 0 and at + ALIGNMENT <= len(data):
            _, length = FRAME.unpack_from(data, at - FRAME.size)
            if at + length <= len(data) and is_length_of_scalars(data[at : at + ALIGNMENT], length):
                yield at
        at = data.find(SCALARS_BEGIN, at + 1)
