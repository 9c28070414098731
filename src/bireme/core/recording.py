"""Decides which change of a status may be recorded a little later, together with what follows it.

A status that only grew by what the next observation would show again need not be recorded before the actions
are carried out: if this process dies, nothing is lost but the time of that observation. So a job that starts
costs one write instead of one for each of its replicas. Everything else is recorded first: a loss that was
counted, a replica that is removed by our own decision, an end.
"""

from __future__ import annotations

from msgspec.structs import replace

from bireme.model.decisions import Decision
from bireme.model.job import Job
from bireme.model.status import ConditionType, Status

LONGEST_COUNTS = 1.0
"""Seconds for which a status that only counts more replicas may wait."""
LONGEST_CREATED = 2.0
"""The same for the first status of a job."""
LONGEST_RUNNING = 0.5
"""The same for a job that begins to run, until all of its replicas do."""


def put_off(job: Job, before: Status, decision: Decision, record_by: float, now: float) -> Decision:
    """The decision with the time until which its status may wait, if it may.

    `record_by` is the time that was set for what has been waiting since `before` was recorded. It never moves
    back, however often the status grows: otherwise a job that changes all the time would never be recorded.
    """
    due = min(now + _patience(job, before, decision.status), record_by)
    if decision.status == before or due <= now:
        return decision
    wake_at = due if decision.wake_at is None else min(due, decision.wake_at)
    return replace(decision, record_by=due, wake_at=wake_at)


def _patience(job: Job, before: Status, after: Status) -> float:
    """For how many seconds a change may wait; 0 where it must not."""
    grown = replace(
        before,
        replicas=after.replicas,
        done=after.done,
        sightings=after.sightings,
        started=after.started,
        conditions=after.conditions,
    )
    # That a replica is removed by our own decision must be recorded before it is stopped: a process that
    # found it gone after a crash of this one would count it as lost.
    told = any(known.losses or known.closed for known in after.sightings.values())
    if grown != after or told:
        return 0.0
    if before.conditions == after.conditions:
        return LONGEST_COUNTS
    match [condition.type for condition in after.conditions[len(before.conditions) :]]:
        case [ConditionType.CREATED]:
            return LONGEST_CREATED
        case [*_, ConditionType.RUNNING]:
            active = sum(count.active for count in after.replicas.values())
            return LONGEST_RUNNING if active < job.total else 0.0
    return 0.0
