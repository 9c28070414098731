"""How is a job put aside, and how does it come back."""

from __future__ import annotations

from msgspec.structs import replace

from bireme import kinds
from bireme.core import cleanup, conditions, outcome
from bireme.core.restarts import retry_policy
from bireme.model.decisions import Action, Decision, Event, EventType, Release
from bireme.model.job import Job
from bireme.model.replicas import Observation
from bireme.model.status import ConditionType, Counts, Phase, Status


def hold(job: Job, status: Status, observation: Observation, now: float) -> Decision:
    """Stop every replica, give back the resources, and say so."""
    reason, message = f"{job.kind}Suspended", f"{job.kind} {job.name} is suspended."
    fresh = not status.holds(ConditionType.SUSPENDED)
    status = retry_policy.aged(status, now)
    for active in (ConditionType.RUNNING, ConditionType.RESTARTING):
        status = conditions.deny_in_place(status, active, reason, now)
    status = conditions.add(status, job, ConditionType.SUSPENDED, message, now)
    status = outcome.note_done(job, status, observation)
    if observation.replicas and status.started is None:
        # It had begun, and was put aside before that was written down.
        status = replace(status, started=now)
    status = replace(status, waiting="", trouble="", replicas=_nobody_active(job, status))
    actions: list[Action] = [
        cleanup.removal(one, for_good=True)
        for one in observation.replicas
        if not one.stopping or one.abandoned
    ]
    if observation.admission is not None and not any(one.is_alive for one in observation.replicas):
        actions.append(Release())
    events = (Event(EventType.NORMAL, reason, message),) if fresh else ()
    return Decision(status, tuple(actions), events)


def lift(job: Job, status: Status, now: float) -> tuple[Status, Event]:
    """Let the job go on with its next attempt, free of budget."""
    reason, message = f"{job.kind}Resumed", f"{job.kind} {job.name} is resumed."
    status = conditions.deny(status, ConditionType.SUSPENDED, reason, message, now)
    began = status.started is not None
    status = next_attempt(job, status) if began else status
    status = replace(status, started=now, retries={}, refusal=None, blame=None)
    return status, Event(EventType.NORMAL, reason, message)


def is_called_back(job: Job, status: Status) -> bool:
    """Whether the job has failed and its user wants it to go on."""
    return status.phase is Phase.FAILED and job.policy.resumes > status.resumes


def call_back(job: Job, status: Status, now: float) -> tuple[Status, Event]:
    """Let a job that failed go on with its next attempt, its time and its budgets begun anew."""
    reason, message = f"{job.kind}Resumed", f"{job.kind} {job.name} is resumed."
    spent = replace(status.progress, crashes=status.crashes, evictions=status.evictions)
    status = conditions.deny_in_place(status, ConditionType.FAILED, reason, now)
    status = replace(
        next_attempt(job, status),
        started=now,
        completed=None,
        retries={},
        refusal=None,
        blame=None,
        progress=spent,
        expired=False,
    )
    status = replace(status, wished=status.attempt)
    status = conditions.add(status, job, ConditionType.RESTARTING, message, now, reason)
    return status, Event(EventType.NORMAL, reason, message)


def next_attempt(job: Job, status: Status) -> Status:
    """The status at the beginning of the next attempt: nothing of it was seen yet."""
    kept = status.done if kinds.of(job).independent else ()
    return replace(status, attempt=status.attempt + 1, sightings={}, done=kept, scale={})


def _nobody_active(job: Job, status: Status) -> dict[str, Counts]:
    return {role.type: replace(status.replicas.get(role.type, Counts()), active=0) for role in job.roles}
