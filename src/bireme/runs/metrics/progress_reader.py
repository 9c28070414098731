"""Reads how far a run is from the last records of its ranks, at a cost that does not grow with the run."""

from __future__ import annotations

import os
import stat
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

from bireme.core.machine import progress
from bireme.core.machine.progress import Point, Progress
from bireme.core.scripts import metric_patterns
from bireme.model.job import Job
from bireme.runs.logs import log_reader
from bireme.runs.logs.log_metrics import EchoedRecords
from bireme.runs.logs.log_reader import LogLine
from bireme.runs.metrics.metric_reader import FOLDER, Incarnation, MetricSource
from bireme.runtime.records import record_reader
from bireme.runtime.records.record_format import (
    ALIGNMENT,
    FRAME,
    MAGIC,
    Params,
    RecordDecoder,
    Scalars,
    is_large,
    is_opening,
    is_scalars,
)

MOST_POINTS = 400
_LINES = 200
"""Of the output, in which numbers are looked for."""
_MOST_FILES = 16
"""Ranks of an attempt that are asked whether they reported something."""
WHOLE = 4 << 20
"""Bytes of a file that is read from its beginning to its end, which takes some tens of milliseconds."""
_HEAD = 1 << 18
_TAIL = 3 << 19
"""Bytes at the end of a longer file: a writer reserves up to 1 MiB, and before that are the last records."""
_LONGEST = 1 << 14
_ALIKE = 3
"""Frames in a row by which the beginning of one is recognised."""


def of(folder: Path) -> Progress | None:
    """How far the run in a directory is; None if no rank reported a number."""
    found = record_reader.files(str(folder / FOLDER))
    attempts = sorted({file.attempt for file in found}, reverse=True)
    total: object = None
    for attempt in attempts:
        for file in [file for file in found if file.attempt == attempt][:_MOST_FILES]:
            latest = _Latest(file.path)
            total = latest.total if total is None else total
            if (measured := progress.measured(latest.points, total)) is not None:
                return measured
    return None


def printed(logs: Path, job: Job) -> Progress | None:
    """How far a run is by the numbers that its manifest lets us find in what was printed last."""
    return found_in(log_reader.tail(logs, _LINES), job) if metric_patterns.written(job) else None


def found_in(lines: Iterable[LogLine], job: Job) -> Progress | None:
    """The same in any lines, of the first replica that printed such numbers with their step."""
    patterns = tuple(metric_patterns.compiled(text) for text in metric_patterns.written(job))
    points: dict[str, list[Point]] = {}
    for line in lines:
        by_step: dict[int, dict[str, float]] = {}
        for number in metric_patterns.picked(patterns, line.text):
            if number.step is not None:
                by_step.setdefault(number.step, {})[number.name] = number.value
        new = [Point(step, line.time, values) for step, values in by_step.items()]
        points.setdefault(line.replica, []).extend(new)
    return next((progress.measured(each) for _, each in sorted(points.items()) if each), None)


def echoed(lines: Iterable[str]) -> Progress | None:
    """How far a job is by the marked lines of a rank, some of which may be given twice."""
    points: dict[tuple[Incarnation, MetricSource], dict[tuple[float, int], Point]] = {}
    total: object = None
    records = EchoedRecords()
    for reported in (reported for line in lines for reported in records.reported(line)):
        match reported.record:
            case Params(values=given) if progress.TOTAL in given:
                total = given[progress.TOTAL]
            case Scalars(step=step, time=time, values=values):
                points.setdefault((reported.life, reported.source), {})[time, step] = Point(
                    step, time, values
                )
    if not points:
        return None
    newest = max(life for life, _ in points)
    first = min(source for life, source in points if life == newest)
    return progress.measured([point for _, point in sorted(points[newest, first].items())], total)


class _Latest:
    """The last numbers in one file, and what it says of the total."""

    def __init__(self, path: str) -> None:
        self.total: object = None
        self.points: list[Point] = []
        self._decoder = RecordDecoder()
        self._kept: deque[bytes] = deque(maxlen=MOST_POINTS)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return
        try:
            for payload in _payloads(fd):
                self._take(payload)
        except OSError:
            pass  # what was read so far is good
        finally:
            os.close(fd)
        self._settle()

    def _take(self, payload: bytes) -> None:
        if is_scalars(payload):
            # Decoded when it is known to be among the last ones: a long run has millions of them.
            self._kept.append(payload)
            return
        if is_large(payload):
            return
        if is_opening(payload):
            self._settle()  # its names mean nothing from here on
        record = self._decoder.decode(payload)
        if isinstance(record, Params) and progress.TOTAL in record.values:
            self.total = record.values[progress.TOTAL]

    def _settle(self) -> None:
        decoded = [self._decoder.decode(payload) for payload in self._kept]
        new = [
            Point(record.step, record.time, record.values)
            for record in decoded
            if isinstance(record, Scalars)
        ]
        self._kept.clear()
        self.points = (self.points + new)[-MOST_POINTS:]


def _payloads(fd: int) -> Iterator[bytes]:
    """The payloads of a file; of a long one only those at its beginning and at its end.

    Those at the beginning name the numbers. A process that wrote to the same file later named its numbers
    anew, somewhere in between; the same script names them in the same order.
    """
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or os.pread(fd, len(MAGIC), 0) != MAGIC:
        return
    if found.st_size <= WHOLE:
        yield from (payload for payload, _ in record_reader.frames(fd, len(MAGIC)))
        return
    for payload, end in record_reader.frames(fd, len(MAGIC)):
        yield payload
        if end > _HEAD:
            break
    offset = (found.st_size - _TAIL) & -ALIGNMENT
    begin = _recognised(os.pread(fd, _TAIL, offset))
    if begin is not None:
        yield from (payload for payload, _ in record_reader.frames(fd, offset + begin))


def _recognised(data: bytes) -> int | None:
    """Where a frame begins: its checksum is right, and those of the next ones are."""
    for begin in range(0, len(data), ALIGNMENT):
        at: int | None = begin
        for _ in range(_ALIKE):
            at = None if at is None else _next(data, at)
        if at is not None:
            return begin
    return None


def _next(data: bytes, at: int) -> int | None:
    """Where the frame after this one begins; None if here is none, or one too long to be of numbers."""
    if at + FRAME.size > len(data):
        return None
    checksum, length = FRAME.unpack_from(data, at)
    end = at + FRAME.size + length
    if not 0 < length <= _LONGEST or end > len(data):
        return None
    return end + -end % ALIGNMENT if zlib.crc32(data[at + FRAME.size : end]) == checksum else None
