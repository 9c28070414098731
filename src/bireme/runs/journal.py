"""What happened, in order: a file of JSON lines that is only appended to."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from bireme.model.decoding import DAMAGED
from bireme.runs import files

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
        self._file.append(b"".join(self._encoder.encode(one) + b"\n" for one in records))

    def append_durably(self, *records: Record) -> None:
        """Appends, and returns once a power cut cannot undo it."""
        self.append(*records)
        self._file.sync()

    def read(self) -> tuple[Record, ...]:
        """Returns every whole record, oldest first; changes nothing, so anybody may look."""
        with files.explained(self.path), suppress(FileNotFoundError):
            return tuple(self._decoded(files.read_lines(self.path)))
        return ()

    def close(self) -> None:
        self._file.close()

    def _decoded(self, lines: Iterable[bytes]) -> Iterable[Record]:
        for line in lines:
            try:
                yield self._decoder.decode(line)
            except DAMAGED:
                continue
