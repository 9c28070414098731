"""Finds numbers in what replicas print: by the patterns of the manifest, and in the lines that ranks echo."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from bireme.core.scripts import metric_patterns
from bireme.model.job import Job
from bireme.runs import replica_journal
from bireme.runs.directory import RunDirectory
from bireme.runs.logs import log_reader
from bireme.runs.logs.log_reader import LogLine
from bireme.runs.metrics.metric_reader import (
    FOLDER,
    Feed,
    Incarnation,
    MetricSource,
    RecordFollower,
    Reported,
)
from bireme.runtime.records import log_echo
from bireme.runtime.records.record_format import Params, Scalars

_LAST_STEP = 2**63 - 1

Starts = Mapping[str, list[tuple[float, int]]]
"""When each replica was started, and in which attempt, in order."""


class Picker:
    """Finds numbers in lines, wherever they were printed."""

    def __init__(self, job: Job, room: SeriesLimit | None = None) -> None:
        self._job = job.name
        self._room = room or SeriesLimit()
        self._patterns = tuple(metric_patterns.compiled(text) for text in metric_patterns.written(job))
        # Where a line has no step, its numbers are counted, over all lives.
        self._counts: dict[tuple[str, str], int] = {}

    def __bool__(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self._patterns)

    def reported(self, line: LogLine, starts: Starts) -> list[Reported]:
        """The numbers in a line, as records."""
        found: dict[int, dict[str, float]] = {}
        source = MetricSource(line.replica.removeprefix(f"{self._job}-"))
        for number in metric_patterns.picked(self._patterns, line.text):
            # A pattern may take the name itself from the line.
            if not log_echo.is_name(number.name) or not self._room.takes(source, {number.name}):
                continue
            key = (line.replica, number.name)
            step = self._counts.get(key, 0) if number.step is None else number.step
            self._counts[key] = min(step + 1, _LAST_STEP)
            found.setdefault(step, {})[number.name] = number.value
        life = _life(line, starts)
        return [Reported(source, life, Scalars(step, line.time, values)) for step, values in found.items()]


class PickedNumbers:
    """Numbers in what the replicas of a run print, as records; a feed of `Metrics`."""

    def __init__(self, run: RunDirectory, picker: Picker) -> None:
        self._run = run
        self._picker = picker
        self._follower = log_reader.LogFollower(run.logs)
        self._starts: Starts = {}

    def poll(self) -> list[Reported]:
        lines = self._follower.poll()
        while self._follower.behind:
            lines += self._follower.poll()
        if lines:
            self._starts = _starts(self._run)
        return [reported for line in lines for reported in self._picker.reported(line, self._starts)]


def feeds(run: RunDirectory) -> tuple[Feed, ...]:
    """Where numbers of a run are: what its ranks reported, and their output if there are patterns."""
    reported = RecordFollower(run.path / FOLDER)
    picker = Picker(run.desired().job)
    return (reported, PickedNumbers(run, picker)) if picker else (reported,)


def _life(line: LogLine, starts: Starts) -> Incarnation:
    """In which attempt of its replica, and after how many starts, a line was printed."""
    of_replica = starts.get(line.replica, [])
    before = of_replica[: bisect_right(of_replica, (line.time, 2**63))]
    if not before:
        return 0, 0
    attempt = before[-1][1]
    return attempt, sum(earlier == attempt for _, earlier in before) - 1


def _starts(run: RunDirectory) -> Starts:
    """When the programs of each replica were started, and in which attempt, from the journal."""
    starts: dict[str, list[tuple[float, int]]] = {}
    for life in replica_journal.of(run.journal_path):
        starts.setdefault(life.replica, []).extend((at, life.attempt) for at in life.starts)
    return {replica: sorted(each) for replica, each in starts.items()}


MOST_SOURCES = 5_000
"""Ranks and replicas of one job, each of which becomes a folder."""
MOST_SERIES = 100_000
"""Names of values, those of each source counted by themselves."""


class SeriesLimit:
    """How many sources and names a job may still bring up: what prints to its logs can make them up."""

    def __init__(self) -> None:
        self._series: dict[MetricSource, set[str]] = {}
        self._count = 0
        self.is_full = False
        """Whether something was left out."""

    def takes(self, source: MetricSource, names: set[str]) -> bool:
        """Says whether values of these names may be kept, and remembers them if so."""
        known = self._series.get(source, set())
        new = names - known
        full = source not in self._series and len(self._series) >= MOST_SOURCES
        if full or self._count + len(new) > MOST_SERIES:
            self.is_full = True
            return False
        self._series[source] = known | new
        self._count += len(new)
        return True


class EchoedRecords:
    """Reads the marked lines of one job."""

    def __init__(self, room: SeriesLimit | None = None) -> None:
        self._room = room or SeriesLimit()

    def reported(self, line: str) -> list[Reported]:
        """What is in a line, without its mark; nothing if it is not whole."""
        found = log_echo.read(line)
        if found is None:
            return []
        reporter, records = found
        rank = reporter.rank
        source = (
            MetricSource(f"{reporter.role}-{rank}") if reporter.role else MetricSource(f"rank-{rank}", rank)
        )
        life = (reporter.attempt, reporter.start)
        taken = []
        for record in records:
            if isinstance(record, Scalars | Params):
                names = set(record.values)
            else:
                names = {getattr(record, "name", "")}
            if self._room.takes(source, names):
                taken.append(Reported(source, life, record))
        return taken
