"""Reads the directory of a run into views. Nothing is asked of its runner."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from bireme import errors
from bireme.core.machine import stalls
from bireme.model.decode_errors import DAMAGED
from bireme.model.job import Job
from bireme.model.replicas import Observation, Replica
from bireme.model.status import Phase, Status
from bireme.runs import directory, machine, replica_history, run_checkpoints
from bireme.runs.directory import RunDirectory
from bireme.runs.logs import log_reader
from bireme.runs.logs.log_reader import LogSelection
from bireme.runs.metrics import metric_reader, progress_reader
from bireme.runs.run_files import Machine, RunContext
from bireme.runs.storage import files
from bireme.sdk import diagnosis, job_state, tracebacks
from bireme.sdk.diagnosis import Evidence
from bireme.sdk.local import run_history
from bireme.sdk.views import CheckpointView, Diagnosis, JobSummary, JobView

_MOST_SIGNS = 500
"""Lines, and records of each rank, that show the pace of a job."""
_MOST_CRASHES = 64
"""Of the newest attempts: the first of them is what matters."""


def summary(run: RunDirectory, here: Machine) -> JobSummary:
    """What a list shows of a run."""
    return _summary(run, here, run.context(), run.desired().job, run.status())


def view(run: RunDirectory) -> JobView:
    """Everything about a run."""
    here = machine.this_machine()
    context, job, status = run.context(), run.desired().job, run.status()
    found = explained(run)
    lives = run_history.of(run)
    head = _summary(run, here, context, job, status)
    rows = job_state.replicas(job, status, seen(run.path), lives, context.machine.host)
    found_view = job_state.job_view(head, job, status, found, rows)
    why = found_view.why
    if status.phase is Phase.RUNNING and not why:
        why = stall_hint(run, time.time())
    saved = run_checkpoints.newest(run.path)
    return replace(
        found_view,
        why=why,
        events=run.events(),
        checkpoint=saved and CheckpointView(step=saved.step, where=saved.where, saved=saved.saved),
        resumable=status.phase is Phase.FAILED and head.is_here,
        ran=replica_history.ran(lives, status.completed or time.time()),
        folder=str(run.path),
        cwd=context.cwd,
        python=context.python,
    )


def explained(run: RunDirectory) -> Diagnosis | None:
    """Why the run waits, restarted or failed, with the last lines of a rank that left no traceback."""
    return _with_lines(run, diagnosis.diagnose(_evidence(run)))


def restarted(run: RunDirectory, attempt: int | None = None) -> Diagnosis | None:
    """Why an attempt of the run was begun, by default the last one, even if it has ended since."""
    return _with_lines(run, diagnosis.restarted(_evidence(run), attempt))


def _evidence(run: RunDirectory) -> Evidence:
    lives = run_history.of(run)
    faulted = [life for life in lives if life.failures and life.failures[-1].exit_code in diagnosis.FAULTS]
    # Where they were, as far as their interpreters could still say.
    places = {
        (life.replica, life.attempt): tracebacks.crash_place(
            run_history.stderr(run, life.replica, life.failures[-1].at + 2 * diagnosis.SLACK)
        )
        for life in faulted[-_MOST_CRASHES:]
    }
    return Evidence(
        id=id_of(run),
        job=run.desired().job,
        status=run.status(),
        host=run.context().machine.host,
        lives=lives,
        reports=run_history.reports(run),
        crashes={replica: place for replica, place in places.items() if place},
    )


def _with_lines(run: RunDirectory, found: Diagnosis | None) -> Diagnosis | None:
    if found is None or found.error is None or found.error.traceback:
        return found
    error = found.error
    lines = run_history.tail(run, error.replica, error.time + 2 * diagnosis.SLACK)
    return replace(found, error=replace(error, tail=lines))


def id_of(run: RunDirectory) -> str:
    """What verbs take for this run: a name alone means the newest run, so older ones are numbered."""
    last = directory.newest(run.home, run.id.name)
    is_newest = last is None or last.id.number <= run.id.number
    return str(run.id) if is_newest else f"{run.id.name}#{run.id.number}"


def seen(folder: Path) -> Observation:
    """What the runner saw last; nothing if it has not looked yet."""
    try:
        return msgspec.json.decode(files.read(folder / "seen.json"), type=Observation)
    except (OSError, *DAMAGED):
        return Observation()


def _summary(run: RunDirectory, here: Machine, context: RunContext, job: Job, status: Status) -> JobSummary:
    id, phase = id_of(run), status.phase
    present = [replica for replica in seen(run.path).replicas if replica.attempt == status.attempt]
    is_here = context.is_of(here)
    has_runner = not phase.is_final and run.is_held()
    alive = has_runner or not is_here
    is_ending = has_runner and job_state.is_stopping(job, status, seen(run.path).replicas)
    try:
        progress = progress_reader.of(run.path) or progress_reader.printed(run.logs, job)
    except (OSError, ValueError, struct.error, errors.BiremeError):
        progress = None  # a list of jobs is no place to complain of a damaged file of one of them
    return JobSummary(
        id=id,
        name=run.id.name,
        number=run.id.number,
        kind=str(job.kind),
        phase=phase,
        ready=sum(replica.ready and not replica.stopping for replica in present) if alive else 0,
        total=job.total,
        attempt=status.attempt,
        restarts=job_state.restarts(status, present) + _former_restarts(run, job, present),
        created=context.created,
        started=status.started,
        completed=status.completed,
        exit_status=job_state.exit_status(phase),
        host=context.machine.host,
        is_here=is_here,
        has_runner=has_runner,
        expired=status.expired,
        why=(job_state.stopping(job) if is_ending else "")
        or job_state.why(id, job, status, context.machine.host, is_here, time.time())
        or (job_state.resting(job, present) if phase is Phase.RUNNING else ""),
        progress=progress,
        stopping=is_ending,
        resuming=phase is Phase.SUSPENDED and not job.policy.suspend,
    )


def _former_restarts(run: RunDirectory, job: Job, present: Iterable[Replica]) -> int:
    """The number of restarts of programs in replicas that are gone."""
    if not any(role.restart.in_place for role in job.roles):
        return 0
    here = {replica.uid for replica in present}
    gone = [life for life in run_history.of(run) if life.uid not in here]
    # One that was stopped in its back-off had its next restart counted already.
    return sum(life.restarts if life.phase else max(life.restarts, len(life.failures)) for life in gone)


def stall_hint(run: RunDirectory, now: float) -> str:
    """A sentence for a person if the job is silent for long; an empty text if it is not."""
    status = run.status()
    lives = run_history.of(run)
    began = [life.ran for life in lives if life.attempt == status.attempt and life.ran is not None]
    if not began:
        return ""
    since = max(began)
    lines = [line.time for line in log_reader.tail(run.logs, _MOST_SIGNS, LogSelection(since=since))]
    reported = metric_reader.times(run.path / metric_reader.FOLDER, status.attempt, _MOST_SIGNS)
    quiet = stalls.silence([moment for moment in reported if moment >= since], lines, now)
    return "" if quiet is None else stall_sentence(str(run.id), quiet)


def stall_sentence(id: str, quiet: float) -> str:
    lasted = f"{quiet:.0f} s" if quiet < 120 else f"{quiet / 60:.0f} min"
    return f"no progress for {lasted}: `bireme stacks {id}` shows where each rank is"
