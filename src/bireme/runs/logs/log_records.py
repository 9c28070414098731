"""What a rank reported whose records are out of reach: it is in the lines that it printed."""

from __future__ import annotations

from bireme.runs.metrics.metric_reader import MetricSource, Reported
from bireme.runtime.records import log_echo
from bireme.runtime.records.record_format import Params, Record, Scalars

MOST_SOURCES = 5_000
"""Ranks and replicas of one job, each of which becomes a folder."""
MOST_SERIES = 100_000
"""Names of values, those of each source counted by themselves."""


class SeriesLimit:
    """How many sources and names a job may still bring up: whoever prints to its logs can make them up."""

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
        who, records = found
        source = (
            MetricSource(f"{who.role}-{who.rank}") if who.role else MetricSource(f"rank-{who.rank}", who.rank)
        )
        life = (who.attempt, who.start)
        return [Reported(source, life, one) for one in records if self._room.takes(source, _names(one))]


def _names(record: Record) -> set[str]:
    if isinstance(record, Scalars | Params):
        return set(record.values)
    return {getattr(record, "name", "")}
