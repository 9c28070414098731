"""Writes what TensorBoard reads of a run: event files, one folder for each rank, kept current.

The few messages of its protocol that are needed are encoded here by hand: the field numbers are TensorBoard's
public format, and its own libraries take a second to import. Files are of version 1, in which a step that
goes back supersedes what its own tags had from there on, and leaves the other tags alone.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from bireme.core.clock import Clock
from bireme.runs.metrics.metric_reader import Feed, MetricSource
from bireme.runs.storage import files, locks
from bireme.runtime.records.record_format import FileOpened, Histogram, Image, Params, Record, Scalars, Text

BOARD_FOLDER = "tensorboard"
"""In the directory of a run."""

_FILE = "events.out.tfevents.{seconds}.bireme"
_OWN_FILE = re.compile(r"events\.out\.tfevents\.[0-9]+\.bireme")
_FOLDER_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,250}[a-z0-9])?")


def is_folder_name(source: str) -> bool:
    """Whether a source can have a folder: its name may come from the log of a pod."""
    return _FOLDER_NAME.fullmatch(source) is not None


class TensorboardWriter:
    """Writes event files of what was reported; of several boards of one run only one writes."""

    def __init__(self, folder: Path, clock: Clock, *feeds: Feed) -> None:
        self.folder = folder
        self._clock = clock
        self._feeds = feeds
        self._paths: dict[MetricSource, Path] = {}
        with files.explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
        self._lock = locks.hold(folder / "lock")

    @property
    def is_ours(self) -> bool:
        """Whether this one writes; otherwise another process does."""
        return self._lock is not None

    def is_empty(self) -> bool:
        """Whether nothing was reported yet."""
        return not any(self.folder.glob("*/*tfevents*"))

    def refresh(self) -> None:
        """Adds what was reported since the last time."""
        if self._lock is None:
            return
        new: dict[MetricSource, list[bytes]] = {}
        for feed in self._feeds:
            for reported in feed.poll():
                if is_folder_name(reported.source.name) and (event := encode_event(reported.record)):
                    new.setdefault(reported.source, []).append(event)
        for source, events in new.items():
            path = self._path(source)
            if path is None:
                continue
            with files.explained(path), path.open("ab") as file:
                file.write(b"".join(events))

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _path(self, source: MetricSource) -> Path | None:
        """The file of a source; None where its folder leads out of ours, for what is there is not ours."""
        if source not in self._paths:
            now = self._clock.time()
            path = self.folder / source.name / _FILE.format(seconds=int(now))
            with files.explained(path):
                path.parent.mkdir(exist_ok=True)
                if path.parent.resolve() != self.folder.resolve() / source.name:
                    return None
                # What an earlier board wrote is said anew, if it is said at all: the pods that said it may be
                # gone, and with them the only other copy.
                for old in path.parent.iterdir():
                    if _OWN_FILE.fullmatch(old.name):
                        old.unlink(missing_ok=True)
                with path.open("xb") as file:
                    file.write(file_header(now))
            self._paths[source] = path
        return self._paths[source]


_VERSION = b"brain.Event:1"
_CASTAGNOLI = 0x82F63B78
_STRING = 7
_LAST_BYTES = (1 << 64) - 1
_COLOURS = {0: 1, 2: 3, 6: 4}
"""The colour types of a PNG, and TensorBoard's numbers for them."""


def file_header(time: float) -> bytes:
    """What a file begins with."""
    return _framed(_double(1, time) + _bytes(3, _VERSION))


def encode_event(record: Record) -> bytes:
    """The event of a record; empty for what TensorBoard has no use for."""
    match record:
        case Scalars(step=step, time=time, values=values):
            packed = ((name, struct.pack("<f", _single(value))) for name, value in values.items())
            return _event(step, time, (_tag(name) + b"\x15" + number for name, number in packed))
        case Histogram():
            return _event(record.step, record.time, [_histogram(record)])
        case Image():
            colour = _COLOURS.get(record.png[25] if len(record.png) > 25 else 2, 3)
            size = _integer(1, record.height) + _integer(2, record.width) + _integer(3, colour)
            image = _tag(record.name) + _bytes(4, size + _bytes(4, record.png))
            return _event(record.step, record.time, [image])
        case Text():
            return _event(record.step, record.time, [_text(record.name, record.text)])
        case Params(time=time, values=given):
            # Markdown, which TensorBoard shows as a table.
            rows = [f"| {_cell(name)} | {_cell(value)} |" for name, value in given.items()]
            table = "\n".join(["| name | value |", "| --- | --- |", *rows])
            return _event(0, time, [_text("params", table)])
        case FileOpened():
            return b""


def checksum(data: bytes) -> int:
    """The masked crc32c of TFRecord."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _event(step: int, time: float, values: Iterable[bytes]) -> bytes:
    summary = b"".join(_bytes(1, value) for value in values)
    return _framed(_double(1, time) + _integer(2, step) + _bytes(5, summary)) if summary else b""


def _histogram(record: Histogram) -> bytes:
    counts, edges = record.counts, record.edges
    middles = [(low + high) / 2 for low, high in pairwise(edges)]
    pairs = list(zip(counts, middles, strict=True))
    message = (
        _double(1, edges[0])
        + _double(2, edges[-1])
        + _double(3, float(sum(counts)))
        + _double(4, sum(count * middle for count, middle in pairs))
        + _double(5, sum(count * middle * middle for count, middle in pairs))
        # The last bucket is closed: TensorBoard has it end a little above.
        + _bytes(6, struct.pack(f"<{len(counts)}d", *edges[1:]))
        + _bytes(7, struct.pack(f"<{len(counts)}d", *counts))
    )
    return _tag(record.name) + _bytes(5, message)


def _text(name: str, text: str) -> bytes:
    plugin = _bytes(1, _bytes(1, b"text"))
    one_entry = _bytes(2, _bytes(2, _integer(1, 1)))
    tensor = _integer(1, _STRING) + one_entry + _bytes(8, _utf8(text))
    return _tag(name) + _bytes(8, tensor) + _bytes(9, plugin)


def _cell(value: object) -> str:
    return " ".join(str(value).replace("|", "\\|").split())


def _single(value: float) -> float:
    """TensorBoard's numbers have four bytes; one that does not fit is infinite there."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return value


def _tag(name: str) -> bytes:
    return _bytes(1, _utf8(name))


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _integer(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value & _LAST_BYTES)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    if value < 0x80:
        return _SMALL[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _framed(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return b"".join((length, struct.pack("<I", checksum(length)), data, struct.pack("<I", checksum(data))))


def _entry(number: int) -> int:
    for _ in range(8):
        number = number >> 1 ^ (_CASTAGNOLI if number & 1 else 0)
    return number


_CRC_TABLE = tuple(_entry(number) for number in range(256))
_SMALL = tuple(bytes([number]) for number in range(0x80))
