"""Starts the next attempt of a gang at its new size when the number of its replicas was changed.

A gang is wired for its size, so no replica can join or leave it while it runs. The change is the user's wish:
it counts against no budget, waits for no back-off, and the replicas that run are given time to save.
"""

from __future__ import annotations

from msgspec.structs import replace

from bireme import kinds
from bireme.core import conditions
from bireme.core.restarts import retry_policy
from bireme.core.suspend import next_attempt
from bireme.model.decisions import Decision, Event, EventType, Start
from bireme.model.job import Job, RestartScope
from bireme.model.status import ConditionType, Status


def note(job: Job, decision: Decision) -> Decision:
    """The decision that remembers with which size the gang of this attempt began."""
    begins = any(isinstance(action, Start) for action in decision.actions)
    if job.unit is not RestartScope.GANG or not begins or decision.status.scale:
        return decision
    return replace(decision, status=replace(decision.status, scale=_scale(job)))


def is_changed(job: Job, status: Status) -> bool:
    """Whether the gang of this attempt began with another size than it should have, and is needed still."""
    if job.unit is not RestartScope.GANG or not status.scale or status.scale == _scale(job):
        return False
    wanted = kinds.of(job).wanted(job, frozenset(status.done))
    return not all(replica.name in status.done for replica in wanted)


def begin_anew(job: Job, status: Status, now: float) -> tuple[Status, Event]:
    """Continue the job with its next attempt, at its new size."""
    before, after = status.scale, _scale(job)
    changes = [
        f"{name} from {before.get(name, 0)} to {after.get(name, 0)}"
        for name in {**before, **after}
        if before.get(name, 0) != after.get(name, 0)
    ]
    text = f"job {job.name} is restarting because it was scaled: {', '.join(changes)}."
    # What the gang did at its old size tells nothing of the new one.
    status = replace(next_attempt(job, retry_policy.aged(status, now)), retries={}, refusal=None, blame=None)
    status = replace(status, wished=status.attempt)
    reason = f"{job.kind}Scaled"
    status = conditions.add(status, job, ConditionType.RESTARTING, text, now, reason)
    return status, Event(EventType.NORMAL, reason, text)


def _scale(job: Job) -> dict[str, int]:
    return {role.name: role.replicas for role in job.roles}
