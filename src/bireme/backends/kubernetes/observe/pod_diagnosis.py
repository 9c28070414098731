"""Says what is wrong with a pod and what to do about it: one sentence each."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator

from msgspec import Struct

from bireme.backends.kubernetes.objects import job_objects
from bireme.backends.kubernetes.objects.api_types import (
    ContainerStateTerminated,
    ContainerStatus,
    NodeObject,
    Pod,
)
from bireme.backends.kubernetes.observe import scheduling_diagnosis, termination_log

NO_TRACE = "ContainerStatusUnknown"
"""The reason under which a kubelet reports a container that it has lost."""

# Reasons of a failed pod that speak of its node and not of its program. Those of a kubelet that refuses a pod
# which the scheduler had bound to it are among them: the pod never ran.
_TAKEN = {
    "Evicted": "its node ran short of memory, disk or processes and took it away",
    "NodeLost": "its node went away",
    "NodeShutdown": "its node was shut down",
    "Shutdown": "its node was shut down",
    "Terminated": "its node was shut down",
    "Preempting": "its node took it away for a pod of higher priority",
    "Preempted": "it was taken away for a pod of higher priority",
    "UnexpectedAdmissionError": "its node refused it, as it does when a device is not healthy",
    "NodeAffinity": "its node no longer has the labels that it asks for",
    "NodePorts": "its node had no free port for it",
    "TopologyAffinityError": "its node could not align its cpus and devices",
    "InvalidNodeInfo": "its node did not know its own labels",
}
_DISRUPTIONS = {
    "PreemptionByScheduler": "it was taken away for a pod of higher priority",
    "DeletionByTaintManager": "its node does not answer or was tainted",
    "EvictionByEvictionAPI": "it was taken away while its node was drained",
    "DeletionByPodGC": "its node is gone",
    "TerminationByKubelet": "its node ran short of resources or was shut down",
}
_OUT_OF = "OutOf"
"""So begins the reason of a kubelet that has less room than the scheduler thought."""

NOT_STARTED = ("CreateContainerError", "RunContainerError", "StartError", "ContainerCannotRun")
NO_IMAGE = (
    "ImagePullBackOff",
    "ErrImagePull",
    "InvalidImageName",
    "ErrImageNeverPull",
    "RegistryUnavailable",
)

_NO_SUCH_IMAGE = "does not exist"
_REFUSED = "the registry refuses image"


class Trouble(Struct, frozen=True):
    """What keeps a replica from working, in a word and in a sentence; both empty when nothing does."""

    reason: str = ""
    message: str = ""


def of(pod: Pod, node: NodeObject | None) -> Trouble:
    """What is wrong with a pod now."""
    if pod.status.phase == "Failed":
        return _failed(pod)
    if pod.status.phase == "Succeeded":
        return Trouble()
    if pod.spec.nodeName and (node is None or not node.is_ready):
        name = pod.spec.nodeName
        fact = f"node {name} no longer exists" if node is None else f"node {name} does not answer"
        if pod.metadata.deletionTimestamp is not None:
            return Trouble("NodeLost", f"{fact}; the replica is given up and replaced")
        hint = f"see `kubectl describe node {name}`"
        return Trouble("NodeNotReady", f"{fact}; the replica is replaced if it stays away: {hint}")
    for status in (*pod.status.initContainerStatuses, *pod.status.containerStatuses):
        if trouble := _waiting(pod, status):
            return trouble
    scheduled = pod.condition("PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return Trouble(scheduled.reason, scheduling_diagnosis.sentence(pod, scheduled))
    return Trouble()


def may_yet_be_pulled(trouble: Trouble) -> bool:
    """Whether an image could not be pulled, and no registry said that this will stay so."""
    if trouble.reason not in ("ImagePullBackOff", "RegistryUnavailable"):
        return False
    return _NO_SUCH_IMAGE not in trouble.message and _REFUSED not in trouble.message


def main_container(pod: Pod) -> str:
    """The container that trains."""
    first = pod.spec.containers[0].name if pod.spec.containers else ""
    return pod.metadata.annotations.get(job_objects.MAIN_CONTAINER) or first


def is_evicted(pod: Pod) -> bool:
    """Whether a pod was taken away, and did not end by itself."""
    disrupted = pod.condition("DisruptionTarget")
    if disrupted is not None and disrupted.status == "True":
        return True
    reason = pod.status.reason
    if reason == "Evicted":
        # What the kubelet took away because of the pod's own limits would only meet them again.
        return re.search(r"exceed(s|ed)\b.*\blimit\b", pod.status.message) is None
    if reason in _TAKEN or reason.startswith(_OUT_OF):
        return True
    ends = [end for _, end in _ends(pod)]
    return any(end.reason == NO_TRACE for end in ends) and all(
        end.reason == NO_TRACE or not end.exitCode for end in ends
    )


# Pods that failed.


def _failed(pod: Pod) -> Trouble:
    if is_evicted(pod):
        return _taken(pod)
    if pod.status.reason == "Evicted":
        hint = "raise resources.limits.ephemeral-storage or the volume's sizeLimit, or write less"
        return Trouble("Evicted", f"it used more disk than it may: {_line(pod.status.message)}; {hint}")
    if pod.status.reason == "DeadlineExceeded":
        hint = "raise activeDeadlineSeconds of its pod template"
        return Trouble("DeadlineExceeded", f"it ran longer than its pod template allows; {hint}")
    # The container whose end failed the pod: the main one if that failed, else the first that did.
    failed = {name: end for name, end in _ends(pod) if end.exitCode}
    if not failed:
        said = _line(pod.status.message) or "the cluster does not say why it failed"
        return Trouble(pod.status.reason or "Failed", f"{said}; see `kubectl describe {_where(pod)}`")
    name = main_container(pod) if main_container(pod) in failed else next(iter(failed))
    end = failed[name]
    return Trouble(end.reason or "Error", _ended(pod, name, end, f"`kubectl logs {_where(pod)} -c {name}`"))


def _taken(pod: Pod) -> Trouble:
    disrupted = pod.condition("DisruptionTarget")
    reason = pod.status.reason or (disrupted.reason if disrupted else "") or NO_TRACE
    if disrupted is not None and disrupted.reason in _DISRUPTIONS:
        fact = _DISRUPTIONS[disrupted.reason]
    elif reason.startswith(_OUT_OF):
        fact = f"its node had too little {reason.removeprefix(_OUT_OF)} left when it arrived"
    else:
        fact = _TAKEN.get(reason, "its node lost it")
    said = _line(pod.status.message or (disrupted.message if disrupted else ""))
    node = f"; see `kubectl describe node {pod.spec.nodeName}`" if pod.spec.nodeName else ""
    return Trouble(reason, f"{fact}{f' ({said})' if said else ''}{node}")


def _ends(pod: Pod) -> Iterator[tuple[str, ContainerStateTerminated]]:
    for status in (*pod.status.initContainerStatuses, *pod.status.containerStatuses):
        if status.state.terminated is not None:
            yield status.name, status.state.terminated


def _ended(pod: Pod, name: str, end: ContainerStateTerminated, logs: str) -> str:
    """How a container ended, with its last words where it left some."""
    kind = (
        "init container"
        if any(container.name == name for container in pod.spec.initContainers)
        else "container"
    )
    if end.reason == "OOMKilled":
        containers = (*pod.spec.initContainers, *pod.spec.containers)
        limit = next(
            (container.resources.limits.get("memory") for container in containers if container.name == name),
            None,
        )
        has_limit = limit not in (None, "")
        of_limit = f"its memory limit of {limit}" if has_limit else "the memory that its node had left"
        return f"{kind} {name} used more than {of_limit}; raise resources.limits.memory, or use less"
    if end.reason in NOT_STARTED:
        return _not_started(kind, name, end.message)
    words = termination_log.without(end.message).strip()
    # What a container wrote last is the error itself; a traceback comes before it.
    said = f": {_line(words.splitlines()[-1])}" if words else ""
    number = end.signal or (end.exitCode - 128 if end.exitCode > 128 else 0)
    try:
        how = f"was killed by {signal.Signals(number).name}"
    except ValueError:
        how = f"exited with code {end.exitCode}"
    return f"{kind} {name} {how}{said}; see {logs}"


# Pods that wait.


def _waiting(pod: Pod, status: ContainerStatus) -> Trouble | None:
    waiting = status.state.waiting
    if waiting is None:
        # After the first crash a container is started at once; after others there is a pause, which a busy
        # kubelet says nothing about for a long time.
        end = status.state.terminated
        if end is None or not end.exitCode or not status.restartCount:
            return None
        if pod.spec.restartPolicy == "Never" or pod.metadata.deletionTimestamp is not None:
            return None
        return _crashes(pod, status.name, end, "")
    if waiting.reason in NO_IMAGE:
        # The two reasons take turns while it is tried again.
        reason = "ImagePullBackOff" if waiting.reason == "ErrImagePull" else waiting.reason
        return Trouble(reason, _no_image(pod, status, waiting.reason, waiting.message))
    if waiting.reason == "CreateContainerConfigError":
        return Trouble(waiting.reason, _no_config(pod, status.name, waiting.message))
    if waiting.reason in NOT_STARTED:
        return Trouble(waiting.reason, _not_started("container", status.name, waiting.message))
    if waiting.reason == "CrashLoopBackOff":
        return _crashes(
            pod, status.name, status.lastState.terminated or ContainerStateTerminated(), " --previous"
        )
    return None


def _crashes(pod: Pod, name: str, last: ContainerStateTerminated, which: str) -> Trouble:
    fact = _ended(pod, name, last, f"`kubectl logs {_where(pod)} -c {name}{which}`")
    return Trouble("CrashLoopBackOff", f"{fact} (it is started again after a pause)")


def _no_image(pod: Pod, status: ContainerStatus, reason: str, said: str) -> str:
    containers = (*pod.spec.initContainers, *pod.spec.containers)
    image = (
        next((container.image for container in containers if container.name == status.name), "")
        or status.image
    )
    if reason == "InvalidImageName":
        return f"{image} is not the name of an image; correct `image` of container {status.name}"
    if reason == "ErrImageNeverPull":
        node = pod.spec.nodeName
        return (
            f"image {image} is not on node {node} and imagePullPolicy is Never; load it there, or allow pulls"
        )
    text = said.lower()
    if "not found" in text or "manifest unknown" in text:
        return f"image {image} {_NO_SUCH_IMAGE}; correct `image` of container {status.name}, or push it"
    if any(word in text for word in ("unauthorized", "denied", "forbidden", "authentication")):
        return f"{_REFUSED} {image}; check its name, or add an imagePullSecret that may read it"
    if any(word in text for word in ("toomanyrequests", "too many requests", "rate limit")):
        return f"the registry limits pulls of image {image}; wait, or use a mirror or an imagePullSecret"
    if any(word in text for word in ("no such host", "dial tcp", "timeout", "connection refused", "x509")):
        return f"the registry of image {image} does not answer node {pod.spec.nodeName}; check its address"
    return f"image {image} cannot be pulled; see `kubectl describe {_where(pod)}`"


def _no_config(pod: Pod, container: str, said: str) -> str:
    missing = re.search(r'(configmap|secret) "([^"]+)" not found', said)
    if missing:
        kind = {"configmap": "ConfigMap", "secret": "Secret"}[missing.group(1)]
        return (
            f"container {container} needs the {kind} {missing.group(2)}, which namespace "
            f"{pod.metadata.namespace} does not have; create it"
        )
    key = re.search(r"couldn't find key (\S+) in (ConfigMap|Secret) (?:[^/\s]+/)?(\S+)", said)
    if key:
        return (
            f"container {container} needs the key {key.group(1)} of {key.group(2)} {key.group(3)}, "
            "which does not have it; add it, or mark the reference as optional"
        )
    return f"container {container} cannot be set up: {_line(said)}; see `kubectl describe {_where(pod)}`"


def _not_started(kind: str, name: str, said: str) -> str:
    program = re.search(r'exec: \\?"([^"\\]+)\\?": (executable file not found|stat .*no such file)', said)
    if program:
        return (
            f"the image of {kind} {name} has no program {program.group(1)}; correct its command or its image"
        )
    if "permission denied" in said:
        return f"the program of {kind} {name} may not be executed; make it so in its image: {_line(said)}"
    why = _line(said) or "no reason is given"
    return f"{kind} {name} cannot be started: {why}; check its command and mounts"


# Small things.


def _where(pod: Pod) -> str:
    return f"-n {pod.metadata.namespace} pod/{pod.metadata.name}"


def _line(text: str) -> str:
    """A text of the cluster as part of a sentence of ours."""
    return " ".join(text.split()).rstrip(" .;")[:300]
