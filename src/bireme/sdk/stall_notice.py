"""Says when a running job shows no progress any more: what its ranks printed and reported, and when."""

from __future__ import annotations

from bireme.core.machine import stalls
from bireme.runs.directory import RunDirectory
from bireme.runs.logs import log_reader
from bireme.runs.logs.log_reader import LogSelection
from bireme.runs.metrics import metric_reader
from bireme.sdk.local import run_history

_MOST = 500
"""Lines, and records of each rank, that show the pace of a job."""


def hint(run: RunDirectory, now: float) -> str:
    """A sentence for a person if the job is silent for long; an empty text if it is not."""
    status = run.status()
    began = [one.ran for one in run_history.of(run) if one.attempt == status.attempt and one.ran is not None]
    if not began:
        return ""
    since = max(began)
    lines = [line.time for line in log_reader.tail(run.logs, _MOST, LogSelection(since=since))]
    reported = metric_reader.times(run.path / metric_reader.FOLDER, status.attempt, _MOST)
    quiet = stalls.silence([moment for moment in reported if moment >= since], lines, now)
    return "" if quiet is None else sentence(str(run.id), quiet)


def sentence(id: str, quiet: float) -> str:
    lasted = f"{quiet:.0f} s" if quiet < 120 else f"{quiet / 60:.0f} min"
    return f"no progress for {lasted}: `bireme stacks {id}` shows where each rank is"
