"""Reads what a replica that ended here has told: its error or what it could not save, and how far it came."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from bireme.model.replicas import Replica, ReplicaPhase, Told
from bireme.runs import rank_reports
from bireme.runs.metrics import metric_reader
from bireme.runtime.records import record_reader
from bireme.runtime.script import notes

_MOST_FILES = 8
"""Ranks whose last step is looked up: those of a gang go through the same steps."""
_EARLY = 2.0
"""Seconds by which a report may seem older than its replica, as clocks of files go."""


class Telling:
    """Reads what was told, once for each replica that ended, and how far at each one that failed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._told: dict[str, Told] = {}
        self._far: dict[int, Told] = {}

    def add(self, replica: Replica, began: float) -> Replica:
        """The replica with what it told, if it has ended."""
        if replica.phase not in (ReplicaPhase.FAILED, ReplicaPhase.SUCCEEDED):
            return replica
        if replica.uid not in self._told:
            self._told[replica.uid] = self._look(replica, began)
        return replace(replica, told=self._told[replica.uid])

    def _look(self, replica: Replica, began: float) -> Told:
        attempt = replica.attempt
        # One that ended well may have done so long ago; the others have come farther since.
        if replica.phase is ReplicaPhase.FAILED or attempt not in self._far:
            records = record_reader.files(str(self._folder / metric_reader.FOLDER))
            paths = [record.path for record in records if record.attempt == attempt]
            step = max((record_reader.last_step(path) for path in paths[:_MOST_FILES]), default=-1)
            last = notes.saved(str(self._folder))
            saved = last.step if last is not None and last.attempt == attempt else -1
            self._far[attempt] = Told(step=step, saved=saved)
        far = self._far[attempt]
        report = rank_reports.one(self._folder, replica.name, attempt)
        if report is None:
            return far
        if replica.phase is ReplicaPhase.SUCCEEDED:
            return replace(far, lost=report.lost[: rank_reports.LONGEST])
        if report.error is None or report.error.time < began - _EARLY:
            return far
        return replace(report.error.told, step=far.step, saved=far.saved)
