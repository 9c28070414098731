"""Changes the list of conditions of a job by the rules that its readers rely on."""

from __future__ import annotations

from msgspec.structs import replace

from bireme.model.job import Job
from bireme.model.status import Condition, ConditionType, Status

_EXCLUDES = {
    ConditionType.RUNNING: ConditionType.RESTARTING,
    ConditionType.RESTARTING: ConditionType.RUNNING,
}
_ENDS_RUNNING = (ConditionType.SUCCEEDED, ConditionType.FAILED)


def add(status: Status, job: Job, type: ConditionType, message: str, now: float, reason: str = "") -> Status:
    """Say that something holds now; the reason is `<Kind><Type>` unless another is given."""
    why = reason or f"{job.kind}{type}"
    return _with(status, Condition(type, True, why, message, updated=now, changed=now))


def deny(status: Status, type: ConditionType, reason: str, message: str, now: float) -> Status:
    """Say that something does not hold any more, as the newest entry of the list."""
    return _with(status, Condition(type, False, reason, message, updated=now, changed=now))


def deny_in_place(status: Status, type: ConditionType, reason: str, now: float) -> Status:
    """Say that something does not hold any more, without moving its entry."""
    return replace(status, conditions=_flipped(status.conditions, type, now, reason))


def _with(status: Status, new: Condition) -> Status:
    # A failure is final: only `deny_in_place` takes it back, when a user resumes the job.
    if status.holds(ConditionType.FAILED):
        return status
    old = status.condition(new.type)
    if old is not None and (old.status, old.reason) == (new.status, new.reason):
        return status
    if old is not None and old.status == new.status:
        new = replace(new, changed=old.changed)
    dropped = {new.type, _EXCLUDES.get(new.type)} if new.status else {new.type}
    kept = tuple(condition for condition in status.conditions if condition.type not in dropped)
    if new.type in _ENDS_RUNNING and new.status:
        kept = _flipped(kept, ConditionType.RUNNING, new.updated)
    return replace(status, conditions=(*kept, new))


def _flipped(
    conditions: tuple[Condition, ...], type: ConditionType, now: float, reason: str = ""
) -> tuple[Condition, ...]:
    return tuple(
        replace(condition, status=False, reason=reason or condition.reason, updated=now, changed=now)
        if condition.type is type and condition.status
        else condition
        for condition in conditions
    )
