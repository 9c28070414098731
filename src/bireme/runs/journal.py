"""A journal of what happened, in order: a file of JSON lines that is only appended to."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from bireme.model.decode_errors import DAMAGED
from bireme.runs.storage import disk_room, files
from bireme.runs.storage.disk_room import DiskRoom

Record = TypeVar("Record")


class Journal(Generic[Record]):
    """Records of one type, usually a tagged union of structs, one per line.

    Each append is one write(2), so that a killed writer leaves at most half a line at the end. No part of a
    JSON object is itself valid JSON: a line counts if it can be read, and half a line never does.
    """

    # Any, because mypy has no type for a union; say it once more: `j: Journal[A | B] = Journal(path, A | B)`.
    def __init__(self, path: Path, type: Any) -> None:
        self.path = path
        self._decoder = msgspec.json.Decoder[Record](type)
        self._encoder = msgspec.json.Encoder()
        self._file = files.Appender(path)

    def append(self, *records: Record) -> None:
        """Appends all or, if killed meanwhile, the first few; a power cut may undo it."""
        self._file.append(b"".join(self._encoder.encode(record) + b"\n" for record in records))

    def append_durably(self, *records: Record) -> None:
        """Appends, and returns once a power cut cannot undo it."""
        self.append(*records)
        self._file.sync()

    def read(self) -> tuple[Record, ...]:
        """Returns every whole record, oldest first; changes nothing, so any process may look."""
        with files.explained(self.path), suppress(FileNotFoundError):
            found = []
            for line in files.read_lines(self.path):
                with suppress(*DAMAGED):  # half a line, of a writer that was killed
                    found.append(self._decoder.decode(line))
            return tuple(found)
        return ()

    def close(self) -> None:
        self._file.close()


class Backlog(Generic[Record]):
    """A journal whose records wait in memory, in their order, while they cannot be written."""

    def __init__(self, journal: Journal[Record], room: DiskRoom) -> None:
        self._journal = journal
        self._waiting: list[Record] = []
        self.room = room

    def read(self) -> tuple[Record, ...]:
        """Every record that was written, oldest first."""
        return self._journal.read()

    @property
    def is_behind(self) -> bool:
        return bool(self._waiting)

    def append(self, record: Record) -> None:
        """Append what has happened already: now, or when there is room."""
        self._waiting.append(record)
        self._try()

    def precede(self, record: Record) -> bool:
        """Append what is about to happen, or answer False: then it must not happen yet."""
        if not self._try():
            return False
        self._waiting.append(record)
        if self._try():
            return True
        self._waiting.clear()
        return False

    def flush(self) -> None:
        """Write what waits, or raise why that is not possible now."""
        # One by one: a batch that is cut in the middle would be written twice as far as that.
        while self._waiting:
            self._journal.append(self._waiting[0])
            del self._waiting[0]

    def _try(self) -> bool:
        try:
            self.flush()
        except disk_room.PASSING as error:
            self.room.lack(error)
        return not self._waiting
