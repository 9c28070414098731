"""What a change of the number of replicas means for a gang: its next attempt, at its new size.

A gang is wired for its size, so nobody can join or leave it while it runs. The change is the user's wish: it
costs no budget and no back-off, and whoever runs is given time to save.
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
    begins = any(isinstance(one, Start) for one in decision.actions)
    if job.unit is not RestartScope.GANG or not begins or decision.status.scale:
        return decision
    return replace(decision, status=replace(decision.status, scale=_scale(job)))


def is_changed(job: Job, status: Status) -> bool:
    """Whether the gang of this attempt began with another size than it should have, and is needed still."""
    if job.unit is not RestartScope.GANG or not status.scale or status.scale == _scale(job):
        return False
    wanted = kinds.of(job).wanted(job, frozenset(status.done))
    return not all(one.name in status.done for one in wanted)


def begin_anew(job: Job, status: Status, now: float) -> tuple[Status, Event]:
    """Let the job go on with its next attempt at its new size."""
    text = f"job {job.name} is restarting because it was scaled: {_difference(job, status)}."
    # What the gang did at its old size tells nothing of the new one.
    status = replace(next_attempt(job, retry_policy.aged(status, now)), retries={}, refusal=None, blame=None)
    status = replace(status, wished=status.attempt)
    reason = f"{job.kind}Scaled"
    status = conditions.add(status, job, ConditionType.RESTARTING, text, now, reason)
    return status, Event(EventType.NORMAL, reason, text)


def _scale(job: Job) -> dict[str, int]:
    return {role.name: role.replicas for role in job.roles}


def _difference(job: Job, status: Status) -> str:
    before, after = status.scale, _scale(job)
    return ", ".join(
        f"{name} from {before.get(name, 0)} to {after.get(name, 0)}"
        for name in {**before, **after}
        if before.get(name, 0) != after.get(name, 0)
    )
