"""Reads the object, pods and events of a cluster's job into the views of any job. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bireme import errors, kinds
from bireme.backends.kubernetes.objects import job_objects, job_status
from bireme.backends.kubernetes.objects.api_types import Pod, seconds
from bireme.backends.kubernetes.objects.job_objects import JobObject
from bireme.backends.kubernetes.submit import code_mounts
from bireme.backends.kubernetes.submit.job_client import EventObject
from bireme.core.restarts import attempts
from bireme.manifest import read
from bireme.model.decisions import EventType
from bireme.model.decode_errors import DAMAGED
from bireme.model.job import Job
from bireme.model.replicas import Observation, Replica, ReplicaPhase
from bireme.model.status import Condition, ConditionType, Counts, Phase, Status
from bireme.runs import replica_history
from bireme.runs.run_files import RecordedEvent
from bireme.sdk import diagnosis, job_state, rank_names
from bireme.sdk.backends import BackendName
from bireme.sdk.cluster import pod_history
from bireme.sdk.cluster.pod_history import ReplicaPod
from bireme.sdk.diagnosis import Evidence
from bireme.sdk.views import CheckpointView, Diagnosis, Finding, Glance, JobSummary, JobView, Progress

_KUEUE = "kueue.x-k8s.io/queue-name"
UNNOTICED = 10.0
"""Seconds after which a job that no operator has written a status for is said to wait for an operator."""

_BATCH_CONDITIONS = {
    "Complete": ConditionType.SUCCEEDED,
    "Failed": ConditionType.FAILED,
    "Suspended": ConditionType.SUSPENDED,
}


class JobSnapshot(Struct, frozen=True, kw_only=True):
    """A job of a cluster at one moment."""

    id: str
    context: str
    object: JobObject
    job: Job
    status: Status
    pods: tuple[ReplicaPod, ...] = ()
    events: tuple[EventObject, ...] = ()
    last_lines: Mapping[str, float] = {}
    """When a pod last printed something, by its uid, where that was looked up."""
    crashes: Mapping[tuple[str, int], str] = {}
    """Where the code of a replica was when it crashed, by replica and attempt, as far as its log tells."""
    progress: Progress | None = None
    """How far it is, where that was looked up."""
    now: float

    @property
    def where(self) -> str:
        return f"{self.context}/{self.object.metadata.namespace}"


def seen(
    id: str,
    context: str,
    job_object: JobObject,
    pods: tuple[Pod, ...],
    now: float,
    events: tuple[EventObject, ...] = (),
) -> JobSnapshot:
    job, status = job_of(job_object), status_of(job_object)
    paired = pod_history.paired(job, pods)
    resolved = attempts.resolved(status, Observation(tuple(each.replica for each in paired))).replicas
    return JobSnapshot(
        id=id,
        context=context,
        object=job_object,
        job=job,
        status=status,
        pods=tuple(ReplicaPod(replica, each.pod) for replica, each in zip(resolved, paired, strict=True)),
        events=events,
        now=now,
    )


def job_of(job_object: JobObject) -> Job:
    """The job that an object declares; of one that no job can be made of, only its name and kind."""
    try:
        job = read.from_manifest(job_objects.manifest(job_object)).jobs[0].job
        return replace(job, uid=job_object.metadata.uid)
    except errors.BadManifest:
        meta = job_object.metadata
        return Job(job_object.kind, job_object.apiVersion, meta.name, (), meta.namespace, meta.uid)


def status_of(job_object: JobObject) -> Status:
    """What is remembered about the job, by our operator, by Kubeflow's, or by the batch controller."""
    try:
        if kinds.named(job_object.kind).native:
            return _batch_status(job_object)
        written = msgspec.json.decode(bytes(job_object.status) or b"{}", type=dict[str, object] | None) or {}
        # Other operators write null where they have nothing to say.
        return job_status.read(
            msgspec.json.encode({name: part for name, part in written.items() if part is not None})
        )
    except (ValueError, OverflowError, *DAMAGED):
        return Status()  # written by a controller whose words we do not know


def glance(it: JobSnapshot) -> Glance:
    return Glance(
        id=it.id,
        phase=it.status.phase,
        ready=_ready(it),
        total=it.job.total,
        attempt=it.status.attempt,
        waiting=it.status.waiting or _waits(it) or it.status.trouble,
        again=job_state.restarted_in_place(it.job, _present(it)),
    )


def summary(it: JobSnapshot) -> JobSummary:
    meta, status = it.object.metadata, it.status
    phase = status.phase
    return JobSummary(
        id=it.id,
        name=meta.name,
        number=1,
        kind=it.object.kind,
        phase=phase,
        ready=0 if phase.is_final else _ready(it),
        total=it.job.total,
        attempt=status.attempt,
        restarts=job_state.restarts(status, _present(it)),
        created=seconds(meta.creationTimestamp) or it.now,
        started=status.started,
        completed=status.completed,
        exit_status=job_state.exit_status(phase),
        host=it.where,
        is_here=True,
        has_runner=bool(status.conditions) and not phase.is_final,
        expired=False,
        why=why(it),
        backend=BackendName.KUBERNETES,
        context=it.context,
        namespace=meta.namespace,
        progress=it.progress,
        stopping=_is_stopping(it),
        resuming=phase is Phase.SUSPENDED and not it.job.policy.suspend,
    )


def view(it: JobSnapshot, tail: tuple[str, ...] = ()) -> JobView:
    """Everything about the job; `tail` are the last lines of the replica that failed first."""
    found = with_tail(explained(it), tail)
    head = summary(it)
    lives = pod_history.lives(it.pods, it.last_lines)
    observation = Observation(tuple(pair.replica for pair in it.pods))
    rows = job_state.replicas(it.job, it.status, observation, lives, "")
    found_view = job_state.job_view(head, it.job, it.status, found, rows)
    # As its operator has heard of it; a checkpoint inside of a pod goes with the pod, and is not shown.
    step = it.status.progress.saved
    variables = [each for role in it.job.roles for each in role.container.env]
    named = (each.value for each in variables if each.name == "BIREME_CHECKPOINTS" and each.value)
    where = next(named, "")
    # By its pods; those of earlier attempts are gone, and then its own times must do.
    end = it.status.completed or it.now
    ran = None if it.status.started is None else max(0.0, end - it.status.started)
    if lives and not it.status.attempt:
        ran = replica_history.ran((life for life in lives if life.ran is not None), end)
    return replace(
        found_view,
        events=recorded(it.events),
        checkpoint=CheckpointView(step=step, where=where) if where and step >= 0 else None,
        resumable=it.status.phase is Phase.FAILED and not unresumable(it),
        ran=ran,
        command=code_mounts.unbooted(found_view.command),
    )


def unresumable(it: JobSnapshot) -> str:
    """The reason for which a failed job cannot be resumed as it is; empty if it can, or has not failed."""
    if it.status.phase is not Phase.FAILED:
        return ""
    if kinds.named(it.object.kind).native:
        return "a batch Job that has failed stays so"
    if not job_status.is_ours(it.object.status):
        return "the operator that served it cannot resume failed jobs"
    if _KUEUE in it.object.metadata.labels:
        return "Kueue has given its place in the queue away"
    return ""


def explained(it: JobSnapshot) -> Diagnosis | None:
    """Why the job waits, restarted or failed."""
    found = diagnosis.diagnose(evidence(it))
    waits = _waits(it)
    if waits and (found is None or found.finding is Finding.RESTARTED):
        return Diagnosis(
            finding=Finding.WAITING, summary=f"{it.id} waits: {waits}", more=f"bireme show {it.id}"
        )
    return found


def restarted(it: JobSnapshot, attempt: int | None = None) -> Diagnosis | None:
    return diagnosis.restarted(evidence(it), attempt)


def with_tail(found: Diagnosis | None, tail: tuple[str, ...]) -> Diagnosis | None:
    """A diagnosis with the last lines of its error, where the rank itself reported nothing."""
    if found is None or found.error is None or found.error.traceback:
        return found
    error = replace(found.error, tail=tail, what=found.error.what or pod_history.what_of(tail))
    return replace(found, error=error)


def evidence(it: JobSnapshot) -> Evidence:
    status = it.status
    if status.completed is not None:
        # It is written in whole seconds, rounded down: what happened within that second came before it.
        status = replace(status, completed=status.completed + 1.0)
    return Evidence(
        id=it.id,
        job=it.job,
        status=status,
        host="",
        lives=pod_history.lives(it.pods, it.last_lines),
        reports=pod_history.reports(it.pods),
        crashes=it.crashes,
    )


def why(it: JobSnapshot) -> str:
    """Why the job is not simply running, in a sentence."""
    if it.object.metadata.deletionTimestamp is not None:
        return "it is being removed"
    if _is_stopping(it):
        return job_state.stopping(it.job)
    return _waits(it) or job_state.why(it.id, it.job, it.status, it.where, True, it.now)


def recorded(events: tuple[EventObject, ...]) -> tuple[RecordedEvent, ...]:
    """The events of the cluster, the oldest first."""
    found = []
    for event in events:
        series = event.series.lastObservedTime if event.series else None
        written = series or event.lastTimestamp or event.eventTime or event.firstTimestamp
        recorded = RecordedEvent(
            time=seconds(written or event.metadata.creationTimestamp) or 0.0,
            type=EventType.WARNING if event.type == "Warning" else EventType.NORMAL,
            reason=event.reason or "",
            message=event.message or "",
            count=max(event.count or 1, event.series.count if event.series else 1),
        )
        found.append(recorded)
    return tuple(sorted(found, key=lambda event: event.time))


def _is_stopping(it: JobSnapshot) -> bool:
    return job_state.is_stopping(it.job, it.status, (pair.replica for pair in it.pods))


def _present(it: JobSnapshot) -> list[Replica]:
    return [pair.replica for pair in it.pods if pair.replica.attempt == it.status.attempt]


def _ready(it: JobSnapshot) -> int:
    return sum(replica.ready and not replica.stopping for replica in _present(it))


def _waits(it: JobSnapshot) -> str:
    """The obstacle that keeps the job from running, by its pods, or that no operator runs it."""
    status = it.status
    if status.phase.is_at_rest or status.phase is Phase.QUEUED:
        return ""
    stuck = [
        pair.replica
        for pair in it.pods
        if pair.replica.phase is ReplicaPhase.PENDING and pair.replica.message and not pair.replica.stopping
    ]
    if stuck:
        others = f" (and {len(stuck) - 1} more)" if len(stuck) > 1 else ""
        return f"{rank_names.label(it.job, stuck[0].name)}{others}: {stuck[0].message}"
    created = seconds(it.object.metadata.creationTimestamp) or it.now
    if not status.conditions and not it.pods and it.now - created > UNNOTICED:
        return "no operator has picked it up; `bireme doctor --on kubernetes` looks for one"
    return ""


class _BatchCondition(Struct):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    lastTransitionTime: str | None = None


class _BatchStatus(Struct):
    conditions: tuple[_BatchCondition, ...] = ()
    startTime: str | None = None
    completionTime: str | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0


def _batch_status(job_object: JobObject) -> Status:
    found = msgspec.json.decode(bytes(job_object.status) or b"{}", type=_BatchStatus)
    started = seconds(found.startTime)
    conditions = []
    for each in found.conditions:
        if each.type in _BATCH_CONDITIONS:
            at, kind = seconds(each.lastTransitionTime) or 0.0, _BATCH_CONDITIONS[each.type]
            conditions.append(Condition(kind, each.status == "True", each.reason, each.message, at, at))
    ended = next(
        (known.changed for known in conditions if known.status and known.type is not ConditionType.SUSPENDED),
        None,
    )
    if found.active and ended is None and started is not None:
        running = f"Job {job_object.metadata.name} is running."
        conditions.append(Condition(ConditionType.RUNNING, True, "JobRunning", running, started, started))
    return Status(
        conditions=tuple(conditions),
        replicas={"Pod": Counts(found.active, found.succeeded, found.failed)},
        started=started,
        completed=seconds(found.completionTime) or ended,
        crashes=found.failed,
    )
