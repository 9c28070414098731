"""Judges whether the newest pods of a Deployment run, and says what to do where they do not."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable
from enum import StrEnum
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from bireme import __version__
from bireme.backends.kubernetes.client.api import Api, ApiError
from bireme.backends.kubernetes.client.paths import path
from bireme.backends.kubernetes.objects.api_types import (
    ContainerStateTerminated,
    Meta,
    NodeObject,
    NodeStatus,
    ObjectCondition,
    Pod,
    PodObjectSpec,
)
from bireme.backends.kubernetes.observe import pod_diagnosis
from bireme.backends.kubernetes.observe.pod_diagnosis import NO_IMAGE, NOT_STARTED, Trouble
from bireme.backends.kubernetes.operators import LEASE, NAMESPACE, Lease

T = TypeVar("T")

REVISION = "deployment.kubernetes.io/revision"
NO_LEASE = "NoLease"
NOT_CREATED = "FailedCreate"
SCALED_DOWN = "ScaledDown"
_READY = NodeObject(status=NodeStatus(conditions=(ObjectCondition("Ready", "True"),)))


class DeploymentTemplate(Struct, frozen=True):
    spec: PodObjectSpec = PodObjectSpec()


class DeploymentSpec(Struct, frozen=True):
    replicas: int = 1
    template: DeploymentTemplate = DeploymentTemplate()


class DeploymentStatus(Struct, frozen=True):
    observedGeneration: int = 0
    replicas: int = 0
    updatedReplicas: int = 0
    availableReplicas: int = 0
    conditions: tuple[ObjectCondition, ...] = ()


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
    nodes: dict[str, NodeObject] | None = None
    """None where nodes may not be read: they are taken for ready."""
    holder: str = ""
    """Which process holds the lease, as `pod_pid_random`."""


class RolloutProgress(StrEnum):
    AVAILABLE = "available"
    COMING = "coming"
    STUCK = "stuck"


class Standing(Struct, frozen=True):
    """How a Deployment fares."""

    namespace: str
    image: str
    progress: RolloutProgress
    reason: str = ""
    message: str = ""
    """What keeps it from running, in a word and in a sentence; both empty when nothing does."""
    said: str = ""
    """The last lines that a container printed before it failed."""
    earlier_serves: bool = False
    """Whether pods of the version before still do the work."""

    @property
    def works(self) -> bool:
        return self.progress is RolloutProgress.AVAILABLE

    @property
    def is_stuck(self) -> bool:
        return self.progress is RolloutProgress.STUCK


async def see(api: Api, deployment: Deployment) -> Rollout:
    """Looks up what became of a Deployment of the operator."""
    home, name = deployment.metadata.namespace, deployment.metadata.name
    chosen = f"app.kubernetes.io/name={name}"
    sets, pods, nodes, lease = await asyncio.gather(
        api.listing(path("apps/v1", "replicasets", home), ReplicaSet, labelSelector=chosen),
        api.listing(path("v1", "pods", home), Pod, labelSelector=chosen),
        _allowed(api.listing(path("v1", "nodes"), NodeObject)),
        _allowed(api.get(path("coordination.k8s.io/v1", "leases", home, LEASE), Lease)),
    )
    return Rollout(
        deployment,
        tuple(sets.items),
        tuple(pods.items),
        None if nodes is None else {node.metadata.name: node for node in nodes.items},
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
    revision = deployment.metadata.annotations.get(REVISION, "")
    sets = {
        replica_set.metadata.uid
        for replica_set in seen.sets
        if replica_set.metadata.annotations.get(REVISION) == revision
    }
    living = [pod for pod in seen.pods if pod.metadata.deletionTimestamp is None]
    newest = [pod for pod in living if (owner := pod.metadata.controller) and owner.uid in sets]
    ready = [pod.condition("Ready") for pod in living if pod not in newest]
    image = spec.template.spec.containers[0].image if spec.template.spec.containers else ""
    found = Standing(
        deployment.metadata.namespace,
        image,
        RolloutProgress.COMING,
        earlier_serves=any(condition is not None and condition.status == "True" for condition in ready),
    )
    if spec.replicas == 0:
        return _stuck(found, Trouble(SCALED_DOWN, "its Deployment is scaled to 0 replicas"))
    if status.observedGeneration < deployment.metadata.generation:
        return found  # What the status says is about the version before.
    runs = status.updatedReplicas >= spec.replicas and status.availableReplicas >= spec.replicas
    # A pod may be ready for a moment and fail right after: one that holds the lease works.
    if runs and any(seen.holder.startswith(f"{pod.metadata.name}_") for pod in newest):
        return replace(found, progress=RolloutProgress.AVAILABLE)
    for pod in newest:
        node = _READY if seen.nodes is None else seen.nodes.get(pod.spec.nodeName)
        if (trouble := pod_diagnosis.of(pod, node)).reason:
            end = _last_end(pod)
            if end.reason in pod_diagnosis.NOT_STARTED:
                return _stuck(found, Trouble(end.reason, trouble.message))
            return _stuck(found, trouble, end.message)
    failures = [
        condition
        for condition in status.conditions
        if condition.type == "ReplicaFailure" and condition.status == "True"
    ]
    if failures:
        return _stuck(found, Trouble(NOT_CREATED, _not_created(deployment, failures[0].message)))
    if runs:
        held = f"{seen.holder} holds it" if seen.holder else "no operator holds it"
        return replace(found, reason=NO_LEASE, message=f"it runs and waits for its lease: {held}")
    return found


def _stuck(found: Standing, trouble: Trouble, said: str = "") -> Standing:
    return replace(
        found, progress=RolloutProgress.STUCK, reason=trouble.reason, message=trouble.message, said=said
    )


def _last_end(pod: Pod) -> ContainerStateTerminated:
    for status in pod.status.containerStatuses:
        for end in (status.state.terminated, status.lastState.terminated):
            if end is not None:
                return end
    return ContainerStateTerminated()


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


_PERHAPS_NOT_PUSHED = ("ImagePullBackOff", "ErrImageNeverPull", "RegistryUnavailable")
"""Where the image may be right and is not where it is looked for; else another one is needed."""


class Remedy(Struct, frozen=True):
    """What is wrong with the operator, and the lines that say what to do."""

    what: str
    steps: tuple[str, ...]


def remedy(standing: Standing) -> Remedy | None:
    """What keeps the operator from working, and the way out; None where nothing does. Pure."""
    if not standing.reason:
        return None
    subject = "the operator's new version" if standing.earlier_serves else "the operator"
    fact, _, advice = standing.message.partition("; ")
    kept = "; the earlier one continues" if standing.earlier_serves else ""
    again = _again(standing)
    if standing.reason in (*NO_IMAGE, *NOT_STARTED):
        return Remedy(f"{subject} does not start: {fact}{kept}", _image_steps(standing, advice))
    if standing.reason == "CrashLoopBackOff":
        where = f"-n {standing.namespace} deployment/{LEASE}"
        # The error is what it printed last; its hints come after it.
        lines = [line.strip() for line in standing.said.splitlines() if line.strip()]
        told = [line.removeprefix("bireme: ") for line in lines if line.startswith("bireme: ")]
        last = (told or lines or [""])[-1][:300] or fact
        steps = (f"all that it says: kubectl logs {where}", f"to renew it: {again}")
        return Remedy(f"{subject} ends as soon as it starts: {last}{kept}", steps)
    if standing.reason == SCALED_DOWN:
        step = f"kubectl -n {standing.namespace} scale deployment {LEASE} --replicas 1"
        return Remedy(f"{subject} does not run: {fact}", (step,))
    if standing.reason == NO_LEASE:
        step = f"stop that one, or see `kubectl describe -n {standing.namespace} lease {LEASE}`"
        return Remedy(f"{subject} does not act: {fact}{kept}", (step,))
    if "has no ServiceAccount" in fact:
        return Remedy(f"{subject} does not start: {fact}{kept}", (f"to create it again: {again}",))
    if "quota" in fact:
        step = f"raise it: kubectl describe quota -n {standing.namespace}"
        return Remedy(f"{subject} does not start: {fact}{kept}", (step,))
    look = f"kubectl describe -n {standing.namespace} deployment,pods"
    return Remedy(f"{subject} does not start: {fact}{kept}", tuple(step for step in (advice, look) if step))


def _image_steps(standing: Standing, advice: str) -> tuple[str, ...]:
    if "imagePullSecret" in advice:
        account = f"serviceaccount {LEASE}"
        secret = '{"imagePullSecrets": [{"name": "SECRET"}]}'
        restart = f"kubectl -n {standing.namespace} rollout restart deployment {LEASE}"
        return (
            "let it pull with a secret of type kubernetes.io/dockerconfigjson in that namespace:",
            f"  kubectl -n {standing.namespace} patch {account} -p '{secret}'",
            f"  {restart}",
            f"or choose another image: {_again(standing, 'IMAGE')}",
        )
    named = standing.image if standing.reason in _PERHAPS_NOT_PUSHED else ""
    return building(named, standing.namespace)


def _again(standing: Standing, image: str = "") -> str:
    return command(image or standing.image, standing.namespace)


def building(image: str = "", namespace: str = NAMESPACE) -> tuple[str, ...]:
    """The lines that say how an image of the operator is made, and put where nodes find it."""
    named = image or f"registry.example/{LEASE}:{__version__}"
    return (
        "build it in a checkout of Bireme, and push it to a registry that the nodes can pull from:",
        f"  docker build -t {named} .",
        f"  docker push {named}",
        f"  {command(named, namespace)}",
        f"a cluster of kind needs no registry: kind load docker-image {named}",
        "without an image: bireme install --crds-only, then bireme operator --no-leader-elect here",
    )


def command(image: str, namespace: str) -> str:
    """The command that installs the operator with an image."""
    where = "" if namespace == NAMESPACE else f" --namespace {namespace}"
    return f"bireme install --image {image}{where}"
