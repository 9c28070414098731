"""Reads what has become of a replica from its pod and the node it is on."""

from __future__ import annotations

import re

from msgspec.structs import replace

from bireme.backends.kubernetes.objects import job_objects
from bireme.backends.kubernetes.objects.api_types import (
    ContainerStateTerminated,
    ContainerStatus,
    NodeObject,
    NodeStatus,
    ObjectCondition,
    Pod,
    seconds,
)
from bireme.backends.kubernetes.observe import pod_diagnosis, termination_log
from bireme.kinds.kubeflow_labels import JOB_ROLE, MPI_ROLE_TYPE, REPLICA_INDEX, REPLICA_TYPE
from bireme.model.replicas import Loss, Replica, ReplicaPhase, Told

ENDED = ("Failed", "Succeeded")
"""The phases of a pod that runs no more."""
READY_NODE = NodeObject(status=NodeStatus((ObjectCondition("Ready", "True"),)))
"""What to pass for every node where nodes may not be read: an absent one counts as lost."""


def replica(pod: Pod, node: NodeObject | None) -> Replica:
    """The replica that a pod is; `node` is the one it is bound to, None where that does not exist."""
    leftover = is_leftover(pod)
    pod = _foreseen(pod)
    phase = ReplicaPhase(pod.status.phase or ReplicaPhase.PENDING)
    role = role_of(pod)
    trouble = pod_diagnosis.of(pod, node)
    attempt = attempt_of(pod)
    ready = pod.condition("Ready")
    waits = [status.state.waiting for status in _containers(pod)]
    pauses = sum(wait is not None and wait.reason == "CrashLoopBackOff" for wait in waits)
    return Replica(
        name=pod.metadata.name,
        role=role,
        index=index_of(pod, role),
        attempt=attempt or 0,
        uid=pod.metadata.uid,
        phase=phase,
        ready=ready is not None and ready.status == "True" and not is_lost(pod, node),
        stopping=pod.metadata.deletionTimestamp is not None,
        # The deletion time already includes the grace.
        grace_ends=seconds(pod.metadata.deletionTimestamp),
        unreachable=is_lost(pod, node),
        leftover=leftover,
        # How often containers were started again, or will be as soon as the pause after a crash is over.
        restarts=sum(status.restartCount for status in _containers(pod)) + pauses,
        loss=Loss.EVICTION if pod_diagnosis.is_evicted(pod) or node_took_it(pod, node) else Loss.CRASH,
        exit_code=exit_code(pod),
        reason=trouble.reason,
        message=trouble.message,
        node=pod.spec.nodeName,
        address=pod.status.podIP,
        told=_told(pod) if phase in (ReplicaPhase.FAILED, ReplicaPhase.SUCCEEDED) else Told(),
        attempt_told=attempt is not None,
    )


def _foreseen(pod: Pod) -> Pod:
    """The pod with the phase that it comes to when all its containers have ended and none is started again.

    A kubelet tells the ends of containers at once, but the phase that follows from them a second later.
    """
    ends = [status.state.terminated for status in pod.status.containerStatuses]
    codes = [end.exitCode for end in ends if end is not None]
    if (
        pod.status.phase != ReplicaPhase.RUNNING
        or pod.spec.restartPolicy != "Never"
        or not codes
        or len(codes) != len(pod.spec.containers)
        or any(container.restartPolicy for container in pod.spec.containers)
    ):
        return pod
    phase = ReplicaPhase.FAILED if any(codes) else ReplicaPhase.SUCCEEDED
    return replace(pod, status=replace(pod.status, phase=phase))


def is_leftover(pod: Pod) -> bool:
    """Whether a pod has ended and is being removed, and nothing but its kubelet holds it.

    Its own phase counts, not the one that is foreseen: until then its kubelet may still be at work.
    """
    meta = pod.metadata
    return meta.deletionTimestamp is not None and not meta.finalizers and pod.status.phase in ENDED


def is_lost(pod: Pod, node: NodeObject | None) -> bool:
    """Whether the node that the pod is bound to does not answer or does not exist."""
    return bool(pod.spec.nodeName) and (node is None or not node.is_ready)


def role_of(pod: Pod) -> str:
    """The replica's role, from the labels of whichever version made the pod."""
    said = pod.metadata.labels
    keys = (REPLICA_TYPE, MPI_ROLE_TYPE, JOB_ROLE)
    return next((said[key] for key in keys if key in said), "")


def attempt_of(pod: Pod) -> int | None:
    """The attempt that the pod was made for; None where its label is gone, or says no number."""
    return _number(pod.metadata.labels.get(job_objects.ATTEMPT, ""))


def index_of(pod: Pod, role: str) -> int:
    """The replica's number within its role; its name holds it wherever labels count otherwise."""
    named = re.search(rf"-{re.escape(role)}-([0-9]+)$", pod.metadata.name) if role else None
    return int(named.group(1)) if named else _number(pod.metadata.labels.get(REPLICA_INDEX, "")) or 0


def _number(label: str) -> int | None:
    """The number that a label says; `int` alone would take `1_0` for one."""
    return int(label) if label.isascii() and label.isdecimal() else None


def exit_code(pod: Pod) -> int | None:
    """How the main container ended last; where it did not fail, how the first that did ended."""
    name = pod_diagnosis.main_container(pod)
    main = _last_end(next((status for status in pod.status.containerStatuses if status.name == name), None))
    if main is not None and (main.exitCode or pod.status.phase != ReplicaPhase.FAILED):
        return main.exitCode
    ends = [_last_end(status) for status in _containers(pod)]
    failed = next((end.exitCode for end in ends if end is not None and end.exitCode), None)
    return failed if pod.status.phase == ReplicaPhase.FAILED else main.exitCode if main else None


def _last_end(status: ContainerStatus | None) -> ContainerStateTerminated | None:
    if status is None:
        return None
    end = status.state.terminated or status.lastState.terminated
    # A kubelet that found no trace of a container made its exit code up.
    return None if end is not None and end.reason == pod_diagnosis.NO_TRACE else end


def _told(pod: Pod) -> Told:
    name = pod_diagnosis.main_container(pod)
    main = _last_end(next((status for status in pod.status.containerStatuses if status.name == name), None))
    return termination_log.told(main.message) if main is not None else Told()


def _containers(pod: Pod) -> tuple[ContainerStatus, ...]:
    return (*pod.status.initContainerStatuses, *pod.status.containerStatuses)


def node_took_it(pod: Pod, node: NodeObject | None) -> bool:
    """Whether a failed pod never reported an end of its own, and its node is lost."""
    return pod.status.phase == ReplicaPhase.FAILED and is_lost(pod, node) and exit_code(pod) is None
