"""Reads what a run reported: the records of all its ranks and attempts, without what was repeated later.

A rank that was restarted resumes from a checkpoint, and reports steps that it had reported before. What
counts is what was reported last: from the first step of a later attempt on, earlier ones are superseded. This
is so for each name by itself, because one may be counted in batches and another in epochs.
"""

from __future__ import annotations

import os
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from bireme.runs.storage.files import explained
from bireme.runtime.records.record_format import FileOpened, Histogram, Image, Params, Record, Scalars, Text
from bireme.runtime.records.record_reader import RecordPath, RecordReader, files

FOLDER = "metrics"
"""In the directory of a run."""

_LARGEST = 64 << 20
"""Bytes of a file that is read only to see when it was written to."""

Incarnation = tuple[int, int]
"""An attempt, and how often the source was started in it before."""


class MetricSource(Struct, frozen=True, order=True):
    """What reported: a rank, or a replica in whose output numbers were found."""

    name: str
    """Fit for a file's name: `rank-0`, `worker-1`."""
    rank: int | None = None


class Reported(Struct, frozen=True):
    """A record, its source, and in which of its lives the source reported it."""

    source: MetricSource
    life: Incarnation
    record: Record


class Series(Struct, frozen=True):
    """The values of one name from one source, by step."""

    name: str
    source: MetricSource
    steps: tuple[int, ...]
    times: tuple[float, ...]
    values: tuple[float, ...]


class Feed(Protocol):
    """Something that has records."""

    def poll(self) -> list[Reported]:
        """Returns what came since the last poll; for each source in the order in which it was reported."""


class RecordFollower:
    """Reads the files of records in a folder, each record once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[RecordPath, _Followed] = {}

    def poll(self) -> list[Reported]:
        found: list[Reported] = []
        with explained(self._folder):
            there = files(str(self._folder))
        for file in there:
            if file not in self._files:
                self._files[file] = _Followed(file)
            with explained(Path(file.path)):
                found += self._files[file].poll()
        return found


class RunMetrics:
    """Everything that was reported so far; `refresh` adds what came since."""

    def __init__(self, *feeds: Feed) -> None:
        self._feeds = feeds
        self._columns: dict[str, dict[MetricSource, dict[Incarnation, _Columns]]] = {}
        self._others: list[Reported] = []
        self._params: dict[MetricSource, dict[str, object]] = {}

    def refresh(self) -> bool:
        """Returns whether there was something new."""
        new = [reported for feed in self._feeds for reported in feed.poll()]
        for reported in new:
            match reported.record:
                case Scalars(step=step, time=time, values=values):
                    for name, value in values.items():
                        by_life = self._columns.setdefault(name, {}).setdefault(reported.source, {})
                        by_life.setdefault(reported.life, _Columns()).append(step, time, value)
                case Histogram() | Image() | Text():
                    self._others.append(reported)
                case Params(values=given):
                    self._params.setdefault(reported.source, {}).update(given)
                case FileOpened():
                    pass
        return bool(new)

    def names(self) -> tuple[str, ...]:
        """The names of all scalars, in the order in which they were first reported."""
        return tuple(self._columns)

    def series(self, name: str) -> tuple[Series, ...]:
        """The values of a name, one series for each source that has any."""
        by_source = self._columns.get(name, {})
        lives = [
            (source, life, min(columns.steps))
            for source, by_life in by_source.items()
            for life, columns in by_life.items()
        ]
        ends = _ends(lives)
        found = []
        for source, each in sorted(by_source.items()):
            columns = ((ends[source, life], points) for life, points in sorted(each.items()))
            if points := [point for end, column in columns for point in column.before(end)]:
                steps, times, values = zip(*points, strict=True)
                found.append(Series(name, source, steps, times, values))
        return tuple(found)

    def others(self) -> tuple[Reported, ...]:
        """Histograms, images and texts, in the order in which they were read."""
        firsts: dict[str, dict[tuple[MetricSource, Incarnation], int]] = {}
        for reported in self._others:
            key, step = (reported.source, reported.life), _step(reported.record)
            of_name = firsts.setdefault(_name(reported.record), {})
            of_name[key] = min(step, of_name.get(key, step))
        ends = {
            name: _ends([(*key, step) for key, step in of_name.items()]) for name, of_name in firsts.items()
        }
        return tuple(
            reported
            for reported in self._others
            if _step(reported.record) < ends[_name(reported.record)][(reported.source, reported.life)]
        )

    def params(self) -> dict[str, object]:
        """What the run was started with; where ranks differ, the lowest one's."""
        merged: dict[str, object] = {}
        for _, values in sorted(self._params.items(), key=lambda pair: pair[0], reverse=True):
            merged |= values
        return merged


def times(folder: Path, attempt: int, most: int) -> list[float]:
    """When the ranks of an attempt reported last, so many times of each; large files are left out."""
    found: list[float] = []
    for file in files(str(folder)):
        with suppress(OSError):
            if file.attempt == attempt and os.stat(file.path).st_size <= _LARGEST:
                records = RecordReader(file.path, leaves_out_large=True).each()
                found += deque(
                    (record.time for record in records if isinstance(record, Scalars)), maxlen=most
                )
    return found


class _Followed:
    """One file, and in which of its lives its rank is."""

    def __init__(self, file: RecordPath) -> None:
        name = f"rank-{file.rank}" + (f"-{file.number}" if file.number else "")
        self._source = MetricSource(name, file.rank)
        self._attempt = file.attempt
        self._starts = 0
        self._reader = RecordReader(file.path)

    def poll(self) -> Iterator[Reported]:
        for record in self._reader.read():
            self._starts += isinstance(record, FileOpened)
            yield Reported(self._source, (self._attempt, max(0, self._starts - 1)), record)


class _Columns:
    """Points of one name, source and life; far smaller than an object for each."""

    def __init__(self) -> None:
        self.steps = array("q")
        self.times = array("d")
        self.values = array("d")

    def append(self, step: int, time: float, value: float) -> None:
        self.steps.append(step)
        self.times.append(time)
        self.values.append(value)

    def before(self, end: float) -> list[tuple[int, float, float]]:
        """The points up to a step; those that were copied late are put where they belong."""
        points = zip(self.steps, self.times, self.values, strict=True)
        return sorted((point for point in points if point[0] < end), key=lambda point: point[0])


def _ends(
    firsts: Iterable[tuple[MetricSource, Incarnation, int]],
) -> dict[tuple[MetricSource, Incarnation], float]:
    """The step from which on each life is superseded, given the first step of each.

    Another attempt supersedes all sources: its ranks may be fewer. A start within an attempt is that of one
    source alone, and the others went on.
    """
    known = list(firsts)
    by_attempt: dict[int, int] = {}
    for _, (attempt, _), first in known:
        by_attempt[attempt] = min(first, by_attempt.get(attempt, first))
    ends: dict[tuple[MetricSource, Incarnation], float] = {}
    for source, life, _ in known:
        later = [first for attempt, first in by_attempt.items() if attempt > life[0]]
        later += [first for other, its, first in known if other == source and its > life]
        ends[(source, life)] = min(later, default=float("inf"))
    return ends


def _name(record: Record) -> str:
    return getattr(record, "name", "")


def _step(record: Record) -> int:
    return getattr(record, "step", 0)
