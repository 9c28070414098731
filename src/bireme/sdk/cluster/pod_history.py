"""Reads the pods of a cluster's job as the lives of its replicas. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from bireme import kinds
from bireme.backends.kubernetes.objects.api_types import ContainerStateTerminated, Pod, seconds
from bireme.backends.kubernetes.observe import pod_diagnosis, pod_status, termination_log
from bireme.model.job import Job, replica_name
from bireme.model.replicas import Loss, Replica
from bireme.runs.rank_reports import Reports
from bireme.runs.replica_history import Failure, ReplicaHistory

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
_OUT_OF_MEMORY = "OOMKilled"
_STOPPED = (137, 143)
"""Exit codes of programs that were asked to end, or killed."""


class ReplicaPod(Struct, frozen=True):
    """A replica, and the pod that it is."""

    replica: Replica
    pod: Pod


def paired(job: Job, pods: Iterable[Pod]) -> tuple[ReplicaPod, ...]:
    """The replica that each pod is, under the name by which its job declares it."""
    ordered = sorted(pods, key=lambda pod: (pod.metadata.creationTimestamp or "", pod.metadata.name))
    if kinds.of(job).native:
        return _of_batch(job, ordered)
    found = []
    for pod in ordered:
        replica = _replica(pod)
        role = job.role(replica.role)
        if role is not None:
            replica = replace(replica, name=replica_name(job, role, replica.index))
        found.append(ReplicaPod(replica, pod))
    return tuple(found)


def lives(
    pairs: Iterable[ReplicaPod], last_lines: Mapping[str, float] | None = None
) -> tuple[ReplicaHistory, ...]:
    """Every pod as a life. `last_lines` tells, by uid, when a pod last printed something.

    A cluster tells ends in whole seconds, within which half a gang may die of its first loss; the last line
    of a rank is closer to its end than that.
    """
    return tuple(_life(pair, (last_lines or {}).get(pair.pod.metadata.uid)) for pair in pairs)


def reports(pairs: Iterable[ReplicaPod]) -> Reports:
    """The reports that the ranks of scripts wrote when they ended."""
    found: Reports = {}
    for pair in pairs:
        for end in _ends(pair.pod):
            if (report := termination_log.report(end.message)) is not None:
                found[pair.replica.name, pair.replica.attempt] = report
    return found


def what_of(lines: Iterable[str]) -> str:
    """The error in a line, where the last lines of a log are those of a traceback."""
    found, inside = "", False
    for line in lines:
        if line.startswith("Traceback (most recent call last)"):
            inside = True
        elif inside and line[:1].isalpha() and termination_log.error_line(line):
            found, inside = line, False
    return found


def _replica(pod: Pod) -> Replica:
    # Users may seldom read nodes; that one is lost shows in its pods soon enough.
    return pod_status.replica(pod, pod_status.READY_NODE)


def _of_batch(job: Job, pods: list[Pod]) -> tuple[ReplicaPod, ...]:
    """A batch Job's pods have random names; those without an index fill the places in their order."""
    role = next(iter(job.roles), None)
    if role is None:
        return ()
    kept = [pod for pod in pods if pod.status.phase != "Failed"]
    places = {pod.metadata.uid: number % max(1, role.replicas) for number, pod in enumerate(kept)}
    found = []
    for pod in pods:
        meta = pod.metadata
        written = meta.annotations.get(COMPLETION_INDEX) or meta.labels.get(COMPLETION_INDEX) or ""
        index = int(written) if written.isdecimal() and len(written) < 10 else places.get(meta.uid, 0)
        name = replica_name(job, role, index)
        found.append(ReplicaPod(replace(_replica(pod), name=name, role=role.name, index=index), pod))
    return tuple(found)


def _life(pair: ReplicaPod, last_line: float | None) -> ReplicaHistory:
    replica, pod = pair.replica, pair.pod
    name = pod_diagnosis.main_container(pod)
    main = next((status for status in pod.status.containerStatuses if status.name == name), None)
    now = main.state if main is not None else None
    ran = seconds(now.running.startedAt) if now is not None and now.running is not None else None
    end = now.terminated if now is not None else None
    is_over = replica.phase.is_final
    ended = seconds(end.finishedAt) if end is not None else None
    if ended is None:
        ended = max((seconds(each.finishedAt) or 0.0 for each in _ends(pod)), default=None)
    return ReplicaHistory(
        uid=pod.metadata.uid,
        replica=replica.name,
        role=replica.role,
        index=replica.index,
        attempt=replica.attempt,
        began=seconds(pod.metadata.creationTimestamp) or 0.0,
        ran=ran if end is None else seconds(end.startedAt),
        ended=_refined(ended, last_line) if is_over and ended is not None else None,
        exit_code=replica.exit_code,
        failures=tuple(_failures(pod, replica, last_line)),
        phase=replica.phase if is_over else None,
        loss=replica.loss,
        reason=replica.reason,
        message=replica.message,
        restarts=replica.restarts,
        host=replica.node,
    )


def _failures(pod: Pod, replica: Replica, last_line: float | None) -> Iterable[Failure]:
    """The ends of a pod's containers that were failures, the last one last."""
    found = []
    due = seconds(pod.metadata.deletionTimestamp)
    removed = inf if due is None else due - (pod.metadata.deletionGracePeriodSeconds or 0)
    for status in (*pod.status.initContainerStatuses, *pod.status.containerStatuses):
        for end in (status.lastState.terminated, status.state.terminated):
            if end is None or not end.exitCode or end.reason == pod_diagnosis.NO_TRACE:
                continue
            ended = seconds(end.finishedAt) or 0.0
            # What a container answers to being removed is no failure of its own.
            if ended > removed or (ended == removed and end.exitCode in _STOPPED):
                continue
            at = _refined(ended, last_line)
            # The exit code tells how a program ended, its log what it said; only the rest needs words.
            needs_words = end.reason == _OUT_OF_MEMORY or replica.loss is Loss.EVICTION
            message = replica.message if needs_words else ""
            found.append(Failure(at, end.exitCode, status.name, end.reason, message))
    return sorted(found, key=lambda failure: failure.at)


def _refined(at: float, last_line: float | None) -> float:
    return last_line if last_line is not None and at - 1.0 <= last_line < at + 1.0 else at


def _ends(pod: Pod) -> Iterable[ContainerStateTerminated]:
    for status in (*pod.status.initContainerStatuses, *pod.status.containerStatuses):
        end = status.state.terminated or status.lastState.terminated
        if end is not None:
            yield end
