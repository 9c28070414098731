"""The format of a file of records, byte by byte.

A file is `MAGIC` and then frames, each at a multiple of eight bytes: the checksum of the payload (crc32), its
length, the payload. A writer puts the length last, in one store: it is the commit, and a length of 0 is the
end of what was written. Numbers are little-endian. A payload begins with its kind; kinds that a reader does
not know are skipped, so that a later version can add some.

Scalars name their values by number. A number is given its name once, before it is used, and means nothing any
more after a `FileOpened`: a process that opens a file again need not know what was in it.

Records are named tuples: as dataclasses they would cost the start of every script some milliseconds.
"""

from __future__ import annotations

import json
import struct
from typing import Dict, NamedTuple, Optional, Sequence, Tuple, Union

MAGIC = b"BIRECS1\n"
FRAME = struct.Struct("<II")
ALIGNMENT = 8
LARGEST = 1 << 28
"""Bytes of a payload; a longer one is damage."""

_OPENED, _NAME, _SCALARS, _HISTOGRAM, _IMAGE, _TEXT, _PARAMS = range(1, 8)
_OPENED_BYTE, _SCALARS_BYTE = bytes([_OPENED]), bytes([_SCALARS])
_HEAD = struct.Struct("<BxH")
_MOST_NAMES = 65535
_MOST_LEVELS = 50
"""Of lists and mappings within parameters."""
_STEP_AND_TIME = struct.Struct("<qd")


class FileOpened(NamedTuple):
    """A process began to write here: the first one, or the same rank started again."""

    time: float
    pid: int


class Scalars(NamedTuple):
    """Numbers of one step."""

    step: int
    time: float
    values: Dict[str, float]


class Histogram(NamedTuple):
    """How many values lie between one edge and the next; there is one edge more than counts."""

    step: int
    time: float
    name: str
    counts: Tuple[int, ...]
    edges: Tuple[float, ...]


class Image(NamedTuple):
    step: int
    time: float
    name: str
    png: bytes
    width: int
    height: int


class Text(NamedTuple):
    step: int
    time: float
    name: str
    text: str


class Params(NamedTuple):
    """What the run was started with: learning rate, batch size and the like."""

    time: float
    values: Dict[str, object]


Record = Union[FileOpened, Scalars, Histogram, Image, Text, Params]


class ScalarsLayout:
    """How scalars of the same names in the same order are packed, worked out once."""

    def __init__(self, numbers: Sequence[int]) -> None:
        count = len(numbers)
        if not 0 < count <= _MOST_NAMES:
            raise ValueError(f"a record has 1 to {_MOST_NAMES} values, not {count}")
        self.head = _HEAD.pack(_SCALARS, count) + struct.pack(f"<{count}I", *numbers)
        # Called with the head, step, time and values: one call is quicker than any joining of parts.
        self.pack = struct.Struct(f"<{len(self.head)}sqd{count}d").pack


def encode_name(number: int, name: str) -> bytes:
    return _HEAD.pack(_NAME, 0) + struct.pack("<I", number) + _utf8(name)


def encode(record: Union[FileOpened, Histogram, Image, Text, Params]) -> bytes:
    """Makes the payload of any record but scalars, which have a `Form`."""
    if isinstance(record, FileOpened):
        return _HEAD.pack(_OPENED, 0) + struct.pack("<dI", record.time, record.pid)
    if isinstance(record, Params):
        text = json.dumps(record.values, default=str, skipkeys=True)
        return _HEAD.pack(_PARAMS, 0) + struct.pack("<d", record.time) + _utf8(text)
    if isinstance(record, Text):
        return _named(_TEXT, record) + _utf8(record.text)
    if isinstance(record, Image):
        return _named(_IMAGE, record) + struct.pack("<II", record.width, record.height) + record.png
    count = len(record.counts)
    numbers = struct.pack(f"<I{count}Q{count + 1}d", count, *record.counts, *record.edges)
    return _named(_HISTOGRAM, record) + numbers


def is_large(payload: bytes) -> bool:
    """Whether it holds an image or a histogram."""
    return len(payload) >= _HEAD.size and _HEAD.unpack_from(payload)[0] in (_IMAGE, _HISTOGRAM)


def step_of(payload: bytes) -> Optional[int]:
    """The step of scalars, whose names need not be known for it; None for any other record."""
    try:
        kind, count = _HEAD.unpack_from(payload)
        if kind != _SCALARS:
            return None
        return int(_STEP_AND_TIME.unpack_from(payload, _HEAD.size + 4 * count)[0])
    except struct.error:
        return None


SCALARS_BEGIN = _HEAD.pack(_SCALARS, 0)[:2]
"""The first bytes of the payload of scalars."""
LARGEST_SCALARS = _HEAD.size + _STEP_AND_TIME.size + 12 * _MOST_NAMES


def is_length_of_scalars(payload: bytes, length: int) -> bool:
    """Whether scalars that begin so have that length, which their number alone decides."""
    count = _HEAD.unpack_from(payload)[1]
    return bool(count > 0 and length == _HEAD.size + _STEP_AND_TIME.size + 12 * count)


def is_scalars(payload: bytes) -> bool:
    return payload[:1] == _SCALARS_BYTE


def is_opening(payload: bytes) -> bool:
    """Whether names that were given before mean nothing any more from here on."""
    return payload[:1] == _OPENED_BYTE


class RecordDecoder:
    """Turns payloads into records, in the order in which they were written."""

    def __init__(self) -> None:
        self._names: Dict[int, str] = {}
        # By the head of scalars, which is the same for all of the same names.
        self._heads: Dict[bytes, Tuple[Tuple[str, ...], struct.Struct]] = {}

    def decode(self, payload: bytes) -> Optional[Record]:
        """Returns None for what only the decoder needs, and for what it does not know."""
        try:
            kind, count = _HEAD.unpack_from(payload)
            if kind != _SCALARS:
                return self._other(kind, count, payload)
            end = _HEAD.size + 4 * count
            head = payload[:end]
            known = self._heads.get(head)
            if known is None:
                numbers = struct.unpack_from(f"<{count}I", head, _HEAD.size)
                if not all(number in self._names for number in numbers):
                    raise ValueError("a value has no name")
                names = tuple(self._names[number] for number in numbers)
                known = self._heads[head] = (names, struct.Struct(f"<qd{count}d"))
            step, time, *values = known[1].unpack_from(payload, end)
            return Scalars(step, time, dict(zip(known[0], values)))
        except (struct.error, ValueError, RecursionError):  # the checksum is right: it is another version's
            return None

    def _other(self, kind: int, length: int, payload: bytes) -> Optional[Record]:
        at = _HEAD.size
        if kind == _OPENED:
            self._names.clear()
            self._heads.clear()
            return FileOpened(*struct.unpack_from("<dI", payload, at))
        if kind == _NAME:
            (number,) = struct.unpack_from("<I", payload, at)
            self._names[number] = _text(payload[at + 4 :])
            self._heads.clear()
            return None
        if kind == _PARAMS:
            (when,) = struct.unpack_from("<d", payload, at)
            values = json.loads(_text(payload[at + 8 :]))
            # Too deeply nested, they could not be shown: the reader's recursion has a limit, too.
            if not isinstance(values, dict) or _is_deeper(values, _MOST_LEVELS):
                raise ValueError
            return Params(when, values)
        if kind not in (_TEXT, _IMAGE, _HISTOGRAM):
            return None
        step, when = _STEP_AND_TIME.unpack_from(payload, at)
        at += _STEP_AND_TIME.size
        name, rest = _text(payload[at : at + length]), payload[at + length :]
        if kind == _TEXT:
            return Text(step, when, name, _text(rest))
        if kind == _IMAGE:
            width, height = struct.unpack_from("<II", rest)
            return Image(step, when, name, rest[8:], width, height)
        (count,) = struct.unpack_from("<I", rest)
        numbers = struct.unpack_from(f"<{count}Q{count + 1}d", rest, 4)
        return Histogram(step, when, name, numbers[:count], numbers[count:])


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, (dict, list)):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(each, levels - 1) for each in inner)


def _named(kind: int, record: Union[Histogram, Image, Text]) -> bytes:
    name = _utf8(record.name)[:_MOST_NAMES]
    return _HEAD.pack(kind, len(name)) + _STEP_AND_TIME.pack(record.step, record.time) + name


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
