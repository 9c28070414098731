"""How is a run seen: its directory, read into views. Nothing is asked of its runner."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec.structs import asdict, replace

from bireme import errors, kinds
from bireme.model.decode_errors import DAMAGED
from bireme.model.job import Job, ReplicaId, RestartScope, replica_ids
from bireme.model.pods import Resources
from bireme.model.replicas import Observation, Replica, ReplicaPhase
from bireme.model.status import ConditionType, Phase, Status
from bireme.runs import directory, machine, run_checkpoints
from bireme.runs.directory import RunDirectory
from bireme.runs.metrics import progress_reader
from bireme.runs.run_files import Machine, RunContext
from bireme.runs.storage import files
from bireme.sdk import diagnosis, inplace_restarts, rank_names, stall_notice, tracebacks
from bireme.sdk.diagnosis import Evidence
from bireme.sdk.local import rank_evidence, run_history
from bireme.sdk.local.run_history import ReplicaHistory
from bireme.sdk.views import CheckpointView, Diagnosis, JobSummary, JobView, Progress, ReplicaView, RoleView

MOST_MEMBERS = 1000
"""Replicas that a view lists; a job may declare a million."""
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
    if found is not None and status.blame is None and status.phase in (Phase.FAILED, Phase.RESTARTING):
        head = replace(head, why=found.summary.partition(": ")[2] or found.summary)
    if status.phase is Phase.RUNNING and not head.why:
        head = replace(head, why=stall_notice.hint(run, time.time()))
    return JobView(
        **asdict(head),
        api_version=job.api_version,
        crashes=status.crashes,
        forgiven=status.progress.crashes,
        crash_limit=job.policy.backoff_limit,
        evictions=status.evictions,
        eviction_limit=job.policy.eviction_limit,
        roles=roles(job),
        resources=together(job),
        conditions=status.conditions,
        replicas=replicas(job, status, seen(run.path), lives, context.machine.host),
        events=run.events(),
        diagnosis=found,
        checkpoint=_checkpoint(run.path),
        resumable=status.phase is Phase.FAILED and head.is_here,
        counts_ranks=rank_names.counts_ranks(job),
        ran=run_history.ran(lives, status.completed or time.time()),
        command=leading_command(job),
        folder=str(run.path),
        cwd=context.cwd,
        python=context.python,
    )


def _checkpoint(folder: Path) -> CheckpointView | None:
    found = run_checkpoints.newest(folder)
    return None if found is None else CheckpointView(step=found.step, where=found.where, saved=found.saved)


def explained(run: RunDirectory) -> Diagnosis | None:
    """Why the run waits, restarted or failed, with the last lines of a rank that left no traceback."""
    return _with_lines(run, diagnosis.diagnose(_evidence(run)))


def restarted(run: RunDirectory, attempt: int | None = None) -> Diagnosis | None:
    """Why an attempt of the run was begun, by default the last one, even if it has ended since."""
    return _with_lines(run, diagnosis.restarted(_evidence(run), attempt))


def _evidence(run: RunDirectory) -> Evidence:
    return Evidence(
        id=id_of(run),
        job=run.desired().job,
        status=run.status(),
        host=run.context().machine.host,
        lives=(lives := run_history.of(run)),
        reports=rank_evidence.reports(run),
        crashes=_crashes(run, lives),
    )


def _crashes(run: RunDirectory, lives: tuple[ReplicaHistory, ...]) -> dict[tuple[str, int], str]:
    """Where replicas were that a signal ended for a fault of theirs, as far as they could say."""
    ended = [one for one in lives if one.failures and one.failures[-1].exit_code in diagnosis.FAULTS]
    places = {
        (one.replica, one.attempt): tracebacks.crash_place(
            rank_evidence.stderr(run, one.replica, one.failures[-1].at + 2 * diagnosis.SLACK)
        )
        for one in ended[-_MOST_CRASHES:]
    }
    return {key: place for key, place in places.items() if place}


def _with_lines(run: RunDirectory, found: Diagnosis | None) -> Diagnosis | None:
    if found is None or found.error is None or found.error.traceback:
        return found
    error = found.error
    lines = rank_evidence.tail(run, error.replica, error.time + 2 * diagnosis.SLACK)
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


def replicas(
    job: Job, status: Status, observation: Observation, lives: tuple[ReplicaHistory, ...], host: str
) -> tuple[ReplicaView, ...]:
    """Every declared replica as it is now, or as it was last."""
    present = {one.name: one for one in observation.replicas}
    former = run_history.newest(lives)
    shown = (member for member, _ in zip(replica_ids(job), range(MOST_MEMBERS), strict=False))
    return tuple(
        _replica(job, status, member, present.get(member.name), former.get(member.name), host)
        for member in shown
    )


def roles(job: Job) -> tuple[RoleView, ...]:
    """The roles that a job declares."""
    return tuple(
        RoleView(
            name=role.name,
            type=role.type,
            replicas=role.replicas,
            restart=str(role.restart),
            resources=role.pod.claims,
        )
        for role in job.roles
    )


def together(job: Job) -> Resources:
    """What all replicas claim together."""
    cpu = [role.pod.claims.cpu * role.replicas for role in job.roles if role.pod.claims.cpu is not None]
    memory = [
        role.pod.claims.memory * role.replicas for role in job.roles if role.pod.claims.memory is not None
    ]
    devices: dict[str, int] = {}
    for role in job.roles:
        for name, count in role.pod.claims.devices.items():
            devices[name] = devices.get(name, 0) + count * role.replicas
    return Resources(sum(cpu) if cpu else None, sum(memory) if memory else None, devices)


def leading_command(job: Job) -> tuple[str, ...]:
    """What the replica that leads runs, or the first one if none does."""
    module = kinds.module(job.kind)
    roles = [role for role in job.roles if role.replicas]
    chosen = next((role for role in roles if module.is_leader(job, role, 0)), roles[0] if roles else None)
    return (*chosen.container.command, *chosen.container.args) if chosen else ()


def why(id: str, job: Job, status: Status, host: str, is_here: bool, now: float) -> str:
    """Why a job is not simply running, in a sentence; empty if there is nothing to say."""
    match status.phase:
        case Phase.QUEUED:
            return status.waiting
        case Phase.SUSPENDED if not job.policy.suspend:
            return "goes on as soon as its replicas have ended"
        case Phase.SUSPENDED:
            return f"stopped; `bireme resume {id}` goes on"
        case Phase.FAILED:
            condition = status.condition(ConditionType.FAILED)
            stated = condition.message if condition else ""
            crashed = diagnosis.cause(job, status)
            return f"{crashed}{diagnosis.tries(job, status)}" if crashed else stated
        case Phase.SUCCEEDED:
            return ""
        case phase:
            if status.trouble:
                return f"tries again: {status.trouble}"
            if phase is Phase.RESTARTING:
                condition = status.condition(ConditionType.RESTARTING)
                stated = condition.message if condition else ""
                crashed = diagnosis.cause(job, status) if _is_recent(job, status) else ""
                return f"{_next_try(status, now)}{crashed or stated}"
            return "" if is_here else f"runs on {host}"


def _is_recent(job: Job, status: Status) -> bool:
    """Whether the crash that is remembered is why the job restarts; of a gang it may be an eviction."""
    if status.blame is None or job.unit is not RestartScope.GANG:
        return True
    return status.blame.attempt == status.attempt - 1


def is_stopping(job: Job, status: Status, present: Iterable[Replica]) -> bool:
    """Whether a job was told to stop, and some of its replicas have not ended yet."""
    return job.policy.suspend and not status.phase.is_final and any(one.is_alive for one in present)


def stopping(job: Job) -> str:
    """What is to be expected of a job that is stopping."""
    grace = max((role.pod.grace for role in job.roles), default=0.0)
    return f"stopping: what has not ended {grace:g} s after SIGTERM is killed"


def _next_try(status: Status, now: float) -> str:
    """When the next attempt begins, or the next replica that fell is replaced."""
    gang = status.retries.get("")
    if gang is not None:
        wait = gang.not_before - now
        return f"attempt {status.attempt + 1}{f' in {_seconds(wait)}' if wait > 0 else ''}: "
    waits = [one.not_before - now for one in status.retries.values() if one.not_before > now]
    return f"again in {_seconds(min(waits))}: " if waits else ""


def _seconds(wait: float) -> str:
    return f"{max(1, round(wait))} s" if wait < 90 else f"{round(wait / 60)} min"


def _summary(run: RunDirectory, here: Machine, context: RunContext, job: Job, status: Status) -> JobSummary:
    id, phase = id_of(run), status.phase
    present = [one for one in seen(run.path).replicas if one.attempt == status.attempt]
    is_here = context.is_of(here)
    has_runner = not phase.is_final and run.is_held()
    alive = has_runner or not is_here
    is_ending = has_runner and is_stopping(job, status, seen(run.path).replicas)
    return JobSummary(
        id=id,
        name=run.id.name,
        number=run.id.number,
        kind=str(job.kind),
        phase=phase,
        ready=sum(one.ready and not one.stopping for one in present) if alive else 0,
        total=job.total,
        attempt=status.attempt,
        restarts=restarts(status, present) + _former_restarts(run, job, present),
        created=context.created,
        started=status.started,
        completed=status.completed,
        exit_status=(0 if phase is Phase.SUCCEEDED else 1) if phase.is_final else None,
        host=context.machine.host,
        is_here=is_here,
        has_runner=has_runner,
        expired=status.expired,
        why=(stopping(job) if is_ending else "")
        or why(id, job, status, context.machine.host, is_here, time.time())
        or (inplace_restarts.resting(job, present) if phase is Phase.RUNNING else ""),
        progress=_progress(run, job),
        stopping=is_ending,
        resuming=phase is Phase.SUSPENDED and not job.policy.suspend,
    )


def _progress(run: RunDirectory, job: Job) -> Progress | None:
    try:
        return progress_reader.of(run.path) or progress_reader.printed(run.logs, job)
    except (OSError, ValueError, struct.error, errors.BiremeError):
        return None  # a list of jobs is no place to complain of a damaged file of one of them


def restarts(status: Status, present: Iterable[Replica]) -> int:
    """How often anything was started again: the gang, replicas that were replaced, programs in place."""
    replaced = sum(retry.failures for name, retry in status.retries.items() if name)
    return status.attempt + replaced + sum(one.restarts for one in present)


def _former_restarts(run: RunDirectory, job: Job, present: Iterable[Replica]) -> int:
    """How often programs were started again in replicas that are gone."""
    if not any(role.restart.in_place for role in job.roles):
        return 0
    here = {one.uid for one in present}
    gone = [life for life in run_history.of(run) if life.uid not in here]
    # One that was stopped in its back-off had its next restart counted already.
    return sum(life.restarts if life.phase else max(life.restarts, len(life.failures)) for life in gone)


def _replica(
    job: Job, status: Status, member: ReplicaId, now: Replica | None, life: ReplicaHistory | None, host: str
) -> ReplicaView:
    role = job.role(member.role)
    assert role is not None, f"{member.name} has a role that its job does not declare"
    blank = ReplicaView(
        name=member.name,
        short=rank_names.short_name(job, member.name),
        role=member.role,
        index=member.index,
        rank=rank_names.rank_of(job, role, member.index),
        phase=ReplicaPhase.SUCCEEDED if member.name in status.done else ReplicaPhase.PENDING,
        attempt=status.attempt,
        host=host,
    )
    known = _as_it_was(blank, status, life) if life is not None else blank
    if now is None:
        return known
    return replace(
        known,
        phase=now.phase,
        ready=now.ready,
        attempt=now.attempt,
        restarts=now.restarts,
        exit_code=now.exit_code,
        reason=now.reason,
        message=now.message,
        host=now.node or host,
        pid=known.pid if now.is_alive else None,
        ended=known.ended if now.phase.is_final else None,
    )


def _as_it_was(blank: ReplicaView, status: Status, life: ReplicaHistory) -> ReplicaView:
    stopped = life.phase is None and life.gone and status.phase.is_final
    ended = life.phase or (ReplicaPhase.FAILED if stopped else blank.phase)
    return replace(
        blank,
        phase=blank.phase if blank.phase is ReplicaPhase.SUCCEEDED else ended,
        attempt=life.attempt,
        restarts=life.restarts,
        exit_code=life.exit_code,
        reason=life.reason,
        message="it was stopped when the job ended" if stopped else life.message,
        pid=life.pid if life.ended is None else None,
        started=life.ran or life.began,
        ended=life.ended,
    )
