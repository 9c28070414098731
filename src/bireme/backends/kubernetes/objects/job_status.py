"""Writes and reads the status of a job object: conditions as Kubeflow has them, our memory beside."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from bireme import kinds
from bireme.backends.kubernetes.objects import job_objects
from bireme.backends.kubernetes.objects.api_types import seconds
from bireme.kinds.kubeflow_labels import REPLICA_TYPE
from bireme.model.job import Job, Role
from bireme.model.status import Condition, ConditionType, Counts, Status

WAITING = "Waiting"
"""A condition beyond the contract's, last in the list while a job cannot go on; its message says why."""

_KNOWN = frozenset(str(type) for type in ConditionType)
_TOLD = ("conditions", "replicas", "started", "completed")
"""The parts of our memory that stand in the contract's own fields."""


class _Condition(Struct, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    lastUpdateTime: str | None = None
    lastTransitionTime: str | None = None


class _Counts(Struct, frozen=True, omit_defaults=True):
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    selector: str = ""


class _Status(Struct, frozen=True, omit_defaults=True):
    # Go writes what is empty as null, and Kubeflow's operators do.
    conditions: tuple[_Condition, ...] | None = ()
    replicaStatuses: dict[str, _Counts | None] | None = {}
    startTime: str | None = None
    completionTime: str | None = None
    lastReconcileTime: str | None = None
    bireme: dict[str, Any] | None = {}  # Any: a part of Status as JSON


_decoder = msgspec.json.Decoder(_Status)


def written(job: Job, status: Status, now: float) -> dict[str, Any]:
    """The status as the API keeps it."""
    memory: dict[str, Any] = msgspec.to_builtins(status)
    conditions = [
        _Condition(
            condition.type,
            "True" if condition.status else "False",
            condition.reason,
            condition.message,
            timestamp(condition.updated),
            timestamp(condition.changed),
        )
        for condition in status.conditions
    ]
    why = status.waiting or status.trouble
    if why and not status.phase.is_final:
        stamp = timestamp(now)
        conditions.append(_Condition(WAITING, "True", f"{job.kind}{WAITING}", why, stamp, stamp))
    shown = _Status(
        conditions=tuple(conditions),
        replicaStatuses={
            role.type: _counts(job, role, status.replicas.get(role.type, Counts())) for role in job.roles
        },
        startTime=timestamp(status.started),
        completionTime=timestamp(status.completed),
        lastReconcileTime=timestamp(now),
        bireme={name: value for name, value in memory.items() if name not in _TOLD},
    )
    built: dict[str, Any] = msgspec.to_builtins(shown)
    return built


def read(raw: bytes | msgspec.Raw) -> Status:
    """The status that was kept; empty bytes mean none."""
    if not bytes(raw):
        return Status()
    found = _decoder.decode(raw)
    memory = msgspec.convert(found.bireme or {}, Status)
    return msgspec.structs.replace(
        memory,
        conditions=tuple(
            Condition(
                ConditionType(condition.type),
                condition.status == "True",
                condition.reason,
                condition.message,
                seconds(condition.lastUpdateTime) or 0.0,
                seconds(condition.lastTransitionTime) or 0.0,
            )
            for condition in found.conditions or ()
            if condition.type in _KNOWN
        ),
        replicas={
            type: Counts(counts.active, counts.succeeded, counts.failed)
            for type, counts in (found.replicaStatuses or {}).items()
            if counts is not None
        },
        started=seconds(found.startTime),
        completed=seconds(found.completionTime),
    )


def is_ours(raw: bytes | msgspec.Raw) -> bool:
    """Whether our own operator wrote a status, and so carries the job on."""
    try:
        return bool(bytes(raw)) and bool(_decoder.decode(raw).bireme)
    except (msgspec.MsgspecError, ValueError):
        return False


def timestamp(time: float | None) -> str | None:
    """A time as the API writes it, in whole seconds."""
    return None if time is None else datetime.fromtimestamp(int(time), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _counts(job: Job, role: Role, counts: Counts) -> _Counts:
    selector = ""
    if kinds.of(job).scalable:
        # What scales a job from outside finds the pods of a role by it.
        chosen = {**kinds.of(job).job_labels(job), REPLICA_TYPE: role.name}
        selector = job_objects.selector(dict(sorted(chosen.items())))
    return _Counts(counts.active, counts.succeeded, counts.failed, selector)
