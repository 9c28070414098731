"""How does a job's list of conditions change: the rules that its readers rely on."""

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
    if status.holds(ConditionType.FAILED):
        return status
    old = status.condition(new.type)
    if old is not None and (old.status, old.reason) == (new.status, new.reason):
        return status
    if old is not None and old.status == new.status:
        new = replace(new, changed=old.changed)
    dropped = {new.type, _EXCLUDES.get(new.type)} if new.status else {new.type}
    kept = tuple(one for one in status.conditions if one.type not in dropped)
    if new.type in _ENDS_RUNNING and new.status:
        kept = _flipped(kept, ConditionType.RUNNING, new.updated)
    return replace(status, conditions=(*kept, new))


def _flipped(
    conditions: tuple[Condition, ...], type: ConditionType, now: float, reason: str = ""
) -> tuple[Condition, ...]:
    return tuple(
        replace(one, status=False, reason=reason or one.reason, updated=now, changed=now)
        if one.type is type and one.status
        else one
        for one in conditions
    )
