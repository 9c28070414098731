"""Says what a job is doing, from its status and its replicas: rows, reasons, restarts. Pure.

Both backends build their views from it, so that a job reads the same wherever it runs.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence

from msgspec.structs import asdict, replace

from bireme import kinds
from bireme.model.job import Job, ReplicaId, RestartScope, replica_ids
from bireme.model.pods import Resources
from bireme.model.replicas import Observation, Replica, ReplicaPhase
from bireme.model.status import ConditionType, Phase, Status
from bireme.runs import replica_history
from bireme.runs.replica_history import ReplicaHistory
from bireme.sdk import diagnosis, rank_names
from bireme.sdk.views import Diagnosis, InPlaceRestart, JobSummary, JobView, ReplicaView, RoleView

MOST_MEMBERS = 1000
"""Replicas that a view lists; a job may declare a million."""
_MOST_RESTARTS = 3
"""Replicas that are shown one by one."""
_SIGNALS = frozenset(signal.Signals)


def job_view(
    head: JobSummary,
    job: Job,
    status: Status,
    found: Diagnosis | None,
    rows: tuple[ReplicaView, ...],
) -> JobView:
    """A view with everything that is the same on every backend; each adds what only it knows."""
    if found is not None and status.blame is None and status.phase in (Phase.FAILED, Phase.RESTARTING):
        head = replace(head, why=found.summary.partition(": ")[2] or found.summary)
    module = kinds.of(job)
    filled = [role for role in job.roles if role.replicas]
    leader = next((role for role in filled if module.is_leader(job, role, 0)), filled[0] if filled else None)
    return JobView(
        **asdict(head),
        api_version=job.api_version,
        crashes=status.crashes,
        forgiven=status.progress.crashes,
        crash_limit=job.policy.backoff_limit,
        evictions=status.evictions,
        eviction_limit=job.policy.eviction_limit,
        roles=tuple(
            RoleView(
                name=role.name,
                type=role.type,
                replicas=role.replicas,
                restart=str(role.restart),
                resources=role.pod.claims,
            )
            for role in job.roles
        ),
        resources=_together(job),
        conditions=status.conditions,
        replicas=rows,
        events=(),
        diagnosis=found,
        counts_ranks=rank_names.counts_ranks(job),
        command=(*leader.container.command, *leader.container.args) if leader else (),
        folder="",
        cwd="",
        python="",
    )


def exit_status(phase: Phase) -> int | None:
    """The exit status of `bireme wait`; None while the job has not ended."""
    return (0 if phase is Phase.SUCCEEDED else 1) if phase.is_final else None


def replicas(
    job: Job, status: Status, observation: Observation, lives: tuple[ReplicaHistory, ...], host: str
) -> tuple[ReplicaView, ...]:
    """Every declared replica as it is now, or as it was last."""
    present = {replica.name: replica for replica in observation.replicas}
    former = replica_history.newest(lives)
    shown = (member for member, _ in zip(replica_ids(job), range(MOST_MEMBERS), strict=False))
    return tuple(
        _replica(job, status, member, present.get(member.name), former.get(member.name), host)
        for member in shown
    )


def why(id: str, job: Job, status: Status, host: str, is_here: bool, now: float) -> str:
    """Says in a sentence why a job is not simply running; empty if there is nothing to say."""
    match status.phase:
        case Phase.QUEUED:
            return status.waiting
        case Phase.SUSPENDED if not job.policy.suspend:
            return "resumes as soon as its replicas have ended"
        case Phase.SUSPENDED:
            return f"stopped; `bireme resume {id}` resumes it"
        case Phase.FAILED:
            condition = status.condition(ConditionType.FAILED)
            stated = condition.message if condition else ""
            crashed = diagnosis.cause(job, status)
            return f"{crashed}{diagnosis.tries(job, status)}" if crashed else stated
        case Phase.SUCCEEDED:
            return ""
        case phase:
            if status.trouble:
                return f"retries: {status.trouble}"
            if phase is Phase.RESTARTING:
                return _why_restarting(job, status, now)
            return "" if is_here else f"runs on {host}"


def is_stopping(job: Job, status: Status, present: Iterable[Replica]) -> bool:
    """Whether a job is to stop, and some of its replicas have not ended yet."""
    return job.policy.suspend and not status.phase.is_final and any(replica.is_alive for replica in present)


def stopping(job: Job) -> str:
    """What is to be expected of a job that is stopping."""
    grace = max((role.pod.grace for role in job.roles), default=0.0)
    return f"stopping: what has not ended {grace:g} s after SIGTERM is killed"


def restarts(status: Status, present: Iterable[Replica]) -> int:
    """The number of restarts of any sort: the gang, replicas that were replaced, programs in place."""
    replaced = sum(retry.failures for name, retry in status.retries.items() if name)
    return status.attempt + replaced + sum(replica.restarts for replica in present)


def restarted_in_place(job: Job, replicas: Iterable[Replica]) -> tuple[InPlaceRestart, ...]:
    """Those whose program was started again, or will be after its back-off."""
    return tuple(
        InPlaceRestart(rank_names.label(job, replica.name), replica.restarts, replica.exit_code)
        for replica in replicas
        if replica.restarts and replica.is_alive and not replica.stopping
    )


def resting(job: Job, replicas: Iterable[Replica]) -> str:
    """Why nothing of a replica runs although it lives: it fell, and is in its back-off."""
    fallen = [replica for replica in replicas if not replica.ready and replica.exit_code is not None]
    waiting = restarted_in_place(job, fallen)
    if not waiting:
        return ""
    others = f" (and {len(waiting) - 1} more)" if len(waiting) > 1 else ""
    times = "once" if waiting[0].restarts == 1 else f"{waiting[0].restarts} times"
    return f"{waiting[0].label}{others} starts again after a pause: {_how(waiting[0])}, {times} so far"


def restart_news(before: Sequence[InPlaceRestart], now: Sequence[InPlaceRestart]) -> list[str]:
    """What to say of the restarts since the last look; one line for many at once."""
    known = {restart.label: restart.restarts for restart in before}
    fresh = [restart for restart in now if restart.restarts > known.get(restart.label, 0)]
    if len(fresh) > _MOST_RESTARTS:
        return [f"{len(fresh)} replicas are restarted: {fresh[0].label} and others ({_how(fresh[0])})"]
    lines = []
    for restart in fresh:
        count = restart.restarts
        end = "th" if count % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
        times = f" ({count}{end} time)" if count > 1 else ""
        lines.append(f"{restart.label} is restarted: {_how(restart)}{times}")
    return lines


def _together(job: Job) -> Resources:
    """The sum of what all replicas claim."""
    cpu = [role.pod.claims.cpu * role.replicas for role in job.roles if role.pod.claims.cpu is not None]
    memory = [
        role.pod.claims.memory * role.replicas for role in job.roles if role.pod.claims.memory is not None
    ]
    devices: dict[str, int] = {}
    for role in job.roles:
        for name, count in role.pod.claims.devices.items():
            devices[name] = devices.get(name, 0) + count * role.replicas
    return Resources(sum(cpu) if cpu else None, sum(memory) if memory else None, devices)


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


def _why_restarting(job: Job, status: Status, now: float) -> str:
    """When the next attempt begins, or the next replica is replaced, and what had happened."""
    begins = ""
    gang = status.retries.get("")
    if gang is not None:
        wait = gang.not_before - now
        begins = f"attempt {status.attempt + 1}{f' in {_seconds(wait)}' if wait > 0 else ''}: "
    elif waits := [retry.not_before - now for retry in status.retries.values() if retry.not_before > now]:
        begins = f"again in {_seconds(min(waits))}: "
    condition = status.condition(ConditionType.RESTARTING)
    stated = condition.message if condition else ""
    # A gang may restart for an eviction: the crash that is remembered is then of an earlier attempt.
    blame = status.blame
    is_recent = blame is None or job.unit is not RestartScope.GANG or blame.attempt == status.attempt - 1
    return f"{begins}{(diagnosis.cause(job, status) if is_recent else '') or stated}"


def _seconds(wait: float) -> str:
    return f"{max(1, round(wait))} s" if wait < 90 else f"{round(wait / 60)} min"


def _how(restart: InPlaceRestart) -> str:
    if restart.exit_code is None:
        return "one of its containers had ended"
    number = restart.exit_code - 128
    named = f" ({signal.Signals(number).name})" if number in _SIGNALS else ""
    return f"exit code {restart.exit_code}{named}"
