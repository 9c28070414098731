"""Fails a job whose manifest is not valid, and says why."""

from __future__ import annotations

from bireme.model.decisions import Decision, Event, EventType
from bireme.model.job import Job
from bireme.model.status import Condition, ConditionType, Phase, Status


def reject(job: Job, status: Status, problem: str, now: float) -> Decision:
    """Let a job fail for what is wrong with its manifest, once; the job has a name and no roles."""
    if status.phase is Phase.FAILED:
        return Decision(status)
    reason, message = f"{job.kind}FailedValidation", f"{job.kind} {job.name} is not valid: {problem}"
    failed = Condition(ConditionType.FAILED, True, reason, message, now, now)
    event = Event(EventType.WARNING, reason, message)
    return Decision(Status(conditions=(failed,), completed=now), events=(event,))
