"""Suspends a job, resumes it, and resumes one that has failed."""

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
    """Stop every replica, then give back the resources."""
    reason, message = f"{job.kind}Suspended", f"{job.kind} {job.name} is suspended."
    fresh = not status.holds(ConditionType.SUSPENDED)
    status = retry_policy.aged(status, now)
    for active in (ConditionType.RUNNING, ConditionType.RESTARTING):
        status = conditions.deny_in_place(status, active, reason, now)
    status = conditions.add(status, job, ConditionType.SUSPENDED, message, now)
    status = outcome.note_done(job, status, observation)
    if observation.replicas and status.started is None:
        # It had begun, and was suspended before that was recorded.
        status = replace(status, started=now)
    # Kueue takes the job for stopped once no replica of any role is active.
    counts = {role.type: replace(status.replicas.get(role.type, Counts()), active=0) for role in job.roles}
    status = replace(status, waiting="", trouble="", replicas=counts)
    actions: list[Action] = [
        cleanup.removal(replica, for_good=True)
        for replica in observation.replicas
        if not replica.stopping or replica.abandoned
    ]
    # Not before the last replica is gone: another job would be given devices that are still in use.
    if observation.admission is not None and not any(replica.is_alive for replica in observation.replicas):
        actions.append(Release())
    events = (Event(EventType.NORMAL, reason, message),) if fresh else ()
    return Decision(status, tuple(actions), events)


def lift(job: Job, status: Status, now: float) -> tuple[Status, Event]:
    """Resume a suspended job with its next attempt; that counts against no budget."""
    reason, message = f"{job.kind}Resumed", f"{job.kind} {job.name} is resumed."
    status = conditions.deny(status, ConditionType.SUSPENDED, reason, message, now)
    began = status.started is not None
    status = next_attempt(job, status) if began else status
    status = replace(status, started=now, retries={}, refusal=None, blame=None)
    return status, Event(EventType.NORMAL, reason, message)


def is_called_back(job: Job, status: Status) -> bool:
    """Whether the job has failed and its user has resumed it since."""
    return status.phase is Phase.FAILED and job.policy.resumes > status.resumes


def call_back(job: Job, status: Status, now: float) -> tuple[Status, Event]:
    """Resume a job that failed with its next attempt; its deadline and its budgets begin anew."""
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
    """The status at the beginning of the next attempt, of which nothing was seen yet."""
    kept = status.done if kinds.of(job).independent else ()
    return replace(status, attempt=status.attempt + 1, sightings={}, done=kept, scale={})
