"""Whether the newest pods of a Deployment run, and what keeps them from it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Sequence
from enum import StrEnum
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from bireme.backends.kubernetes.client.api import Api, ApiError
from bireme.backends.kubernetes.client.paths import path
from bireme.backends.kubernetes.objects.api_types import (
    Condition,
    Meta,
    Node,
    NodeStatus,
    Pod,
    PodSpec,
    Terminated,
)
from bireme.backends.kubernetes.observe import pod_diagnosis
from bireme.backends.kubernetes.observe.pod_diagnosis import Trouble
from bireme.backends.kubernetes.operators import LEASE, Lease

T = TypeVar("T")

REVISION = "deployment.kubernetes.io/revision"
NO_LEASE = "NoLease"
NOT_CREATED = "FailedCreate"
SCALED_DOWN = "ScaledDown"
_READY = Node(status=NodeStatus(conditions=(Condition("Ready", "True"),)))


class Template(Struct, frozen=True):
    spec: PodSpec = PodSpec()


class DeploymentSpec(Struct, frozen=True):
    replicas: int = 1
    template: Template = Template()


class DeploymentStatus(Struct, frozen=True):
    observedGeneration: int = 0
    replicas: int = 0
    updatedReplicas: int = 0
    availableReplicas: int = 0
    conditions: tuple[Condition, ...] = ()


class Deployment(Struct, frozen=True):
    metadata: Meta = Meta()
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class ReplicaSet(Struct, frozen=True):
    metadata: Meta = Meta()


class Rollout(Struct, frozen=True):
    """A Deployment and what became of it, as one look shows them."""

    deployment: Deployment
    sets: tuple[ReplicaSet, ...] = ()
    pods: tuple[Pod, ...] = ()
    nodes: dict[str, Node] | None = None
    """None where nodes may not be read: they are taken for ready."""
    holder: str = ""
    """Which process holds the lease, as `pod_pid_random`."""


class Progress(StrEnum):
    AVAILABLE = "available"
    COMING = "coming"
    STUCK = "stuck"


class Standing(Struct, frozen=True):
    """How a Deployment fares."""

    namespace: str
    image: str
    progress: Progress
    reason: str = ""
    message: str = ""
    """What keeps it from running, in a word and in a sentence; both empty when nothing does."""
    said: str = ""
    """The last lines that a container printed before it failed."""
    earlier_serves: bool = False
    """Whether pods of the version before still do the work."""

    @property
    def works(self) -> bool:
        return self.progress is Progress.AVAILABLE

    @property
    def is_stuck(self) -> bool:
        return self.progress is Progress.STUCK


async def see(api: Api, deployment: Deployment) -> Rollout:
    """Looks up what became of a Deployment of the operator."""
    home, name = deployment.metadata.namespace, deployment.metadata.name
    chosen = f"app.kubernetes.io/name={name}"
    sets, pods, nodes, lease = await asyncio.gather(
        api.listing(path("apps/v1", "replicasets", home), ReplicaSet, labelSelector=chosen),
        api.listing(path("v1", "pods", home), Pod, labelSelector=chosen),
        _allowed(api.listing(path("v1", "nodes"), Node)),
        _allowed(api.get(path("coordination.k8s.io/v1", "leases", home, LEASE), Lease)),
    )
    return Rollout(
        deployment,
        tuple(sets.items),
        tuple(pods.items),
        None if nodes is None else {one.metadata.name: one for one in nodes.items},
        (lease.spec.holderIdentity or "") if lease is not None else "",
    )


async def _allowed(asking: Awaitable[T]) -> T | None:
    try:
        return await asking
    except ApiError as error:
        if error.status not in (403, 404):
            raise
        return None


def judge(seen: Rollout) -> Standing:
    """How the newest version fares; pods of earlier ones only tell whether they still serve. Pure."""
    deployment = seen.deployment
    spec, status = deployment.spec, deployment.status
    newest, earlier = _newest(seen), _earlier(seen)
    image = spec.template.spec.containers[0].image if spec.template.spec.containers else ""
    found = Standing(
        deployment.metadata.namespace,
        image,
        Progress.COMING,
        earlier_serves=any(_is_ready(pod) for pod in earlier),
    )
    if spec.replicas == 0:
        return _stuck(found, Trouble(SCALED_DOWN, "its Deployment is scaled to 0 replicas"))
    if status.observedGeneration < deployment.metadata.generation:
        return found  # What the status says is about the version before.
    runs = status.updatedReplicas >= spec.replicas and status.availableReplicas >= spec.replicas
    if runs and _leads(seen.holder, newest):
        return replace(found, progress=Progress.AVAILABLE)
    for pod in newest:
        if (trouble := pod_diagnosis.of(pod, _node(seen, pod))).reason:
            end = _last_end(pod)
            if end.reason in pod_diagnosis.NOT_STARTED:
                return _stuck(found, Trouble(end.reason, trouble.message))
            return _stuck(found, trouble, end.message)
    if (failure := _condition(status.conditions, "ReplicaFailure")) is not None:
        return _stuck(found, Trouble(NOT_CREATED, _not_created(deployment, failure.message)))
    if runs:
        held = f"{seen.holder} holds it" if seen.holder else "nobody holds it"
        return replace(found, reason=NO_LEASE, message=f"it runs and waits for its lease: {held}")
    return found


def _stuck(found: Standing, trouble: Trouble, said: str = "") -> Standing:
    return replace(found, progress=Progress.STUCK, reason=trouble.reason, message=trouble.message, said=said)


def _newest(seen: Rollout) -> list[Pod]:
    revision = seen.deployment.metadata.annotations.get(REVISION, "")
    sets = {one.metadata.uid for one in seen.sets if one.metadata.annotations.get(REVISION) == revision}
    return [pod for pod in _living(seen.pods) if _owner(pod) in sets]


def _earlier(seen: Rollout) -> list[Pod]:
    newest = _newest(seen)
    return [pod for pod in _living(seen.pods) if pod not in newest]


def _living(pods: Sequence[Pod]) -> list[Pod]:
    return [pod for pod in pods if pod.metadata.deletionTimestamp is None]


def _owner(pod: Pod) -> str:
    return pod.metadata.controller.uid if pod.metadata.controller else ""


def _is_ready(pod: Pod) -> bool:
    ready = pod.condition("Ready")
    return ready is not None and ready.status == "True"


def _leads(holder: str, pods: Sequence[Pod]) -> bool:
    """Whether one of the pods holds the lease: a pod may be ready for a moment and fail right after."""
    return any(holder.startswith(f"{pod.metadata.name}_") for pod in pods)


def _node(seen: Rollout, pod: Pod) -> Node | None:
    return _READY if seen.nodes is None else seen.nodes.get(pod.spec.nodeName)


def _last_end(pod: Pod) -> Terminated:
    for status in pod.status.containerStatuses:
        for end in (status.state.terminated, status.lastState.terminated):
            if end is not None:
                return end
    return Terminated()


def _condition(conditions: Sequence[Condition], type: str) -> Condition | None:
    return next((one for one in conditions if one.type == type and one.status == "True"), None)


def _not_created(deployment: Deployment, said: str) -> str:
    """Why the cluster does not let its pod be created."""
    namespace = deployment.metadata.namespace
    account = re.search(r"service ?account (?:\S+/)?\"?([a-z0-9.-]+)\"?.*not found", said, re.IGNORECASE)
    if account:
        return f"namespace {namespace} has no ServiceAccount {account.group(1)}"
    if "exceeded quota" in said or "must specify" in said:
        return f"the quota of namespace {namespace} does not allow its pod: {_line(said)}"
    return f"its pod may not be created: {_line(said)}"


def _line(text: str) -> str:
    return " ".join(text.split()).rstrip(" .;")[:300]
