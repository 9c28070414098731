"""Declares what we read of a cluster's objects: the few fields that matter to us, as typed values.

The names are those of the Kubernetes API. Everything else that an object holds is skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

Quantities = dict[str, str | int | float]
"""Amounts of resources by name, as they are written."""


class OwnerReference(Struct, frozen=True):
    """The object that an object belongs to."""

    apiVersion: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Meta(Struct, frozen=True):
    """What every object says of itself."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    ownerReferences: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    deletionTimestamp: str | None = None
    """When the object is due to be gone: for a pod the moment of its removal plus its grace."""
    deletionGracePeriodSeconds: int | None = None
    creationTimestamp: str | None = None

    @property
    def controller(self) -> OwnerReference | None:
        """The one owner that acts on the object."""
        return next((owner for owner in self.ownerReferences if owner.controller), None)


def seconds(timestamp: str | None) -> float | None:
    """Seconds since 1970 of a time as the API writes it, such as `2026-01-31T12:00:00Z`, if it is one."""
    try:
        return datetime.fromisoformat(timestamp).timestamp() if timestamp else None
    except (ValueError, OverflowError):
        return None


class ContainerStateTerminated(Struct, frozen=True):
    exitCode: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    startedAt: str | None = None
    finishedAt: str | None = None


class ContainerStateWaiting(Struct, frozen=True):
    reason: str = ""
    message: str = ""


class ContainerStateRunning(Struct, frozen=True):
    startedAt: str | None = None


class ContainerState(Struct, frozen=True):
    """At most one of the three holds."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Struct, frozen=True):
    name: str
    state: ContainerState = ContainerState()
    lastState: ContainerState = ContainerState()
    ready: bool = False
    restartCount: int = 0
    image: str = ""


class ObjectCondition(Struct, frozen=True):
    """A condition of a pod, a node or anything else; `status` is True, False or Unknown."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    lastTransitionTime: str | None = None


class ResourceNeeds(Struct, frozen=True):
    requests: Quantities = {}
    limits: Quantities = {}


class PodContainer(Struct, frozen=True):
    name: str
    image: str = ""
    resources: ResourceNeeds = ResourceNeeds()
    restartPolicy: str = ""


class PodObjectSpec(Struct, frozen=True):
    containers: tuple[PodContainer, ...] = ()
    initContainers: tuple[PodContainer, ...] = ()
    nodeName: str = ""
    restartPolicy: str = ""
    schedulerName: str = ""


class PodStatus(Struct, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    podIP: str = ""
    startTime: str | None = None
    conditions: tuple[ObjectCondition, ...] = ()
    containerStatuses: tuple[ContainerStatus, ...] = ()
    initContainerStatuses: tuple[ContainerStatus, ...] = ()


class Pod(Struct, frozen=True):
    metadata: Meta = Meta()
    spec: PodObjectSpec = PodObjectSpec()
    status: PodStatus = PodStatus()

    def condition(self, type: str) -> ObjectCondition | None:
        return next((condition for condition in self.status.conditions if condition.type == type), None)


class Taint(Struct, frozen=True):
    key: str
    value: str = ""
    effect: str = ""


class NodeSpec(Struct, frozen=True):
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeStatus(Struct, frozen=True):
    conditions: tuple[ObjectCondition, ...] = ()
    allocatable: Quantities = {}
    capacity: Quantities = {}


class NodeObject(Struct, frozen=True):
    metadata: Meta = Meta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def is_ready(self) -> bool:
        return any(
            condition.type == "Ready" and condition.status == "True" for condition in self.status.conditions
        )


class ServicePort(Struct, frozen=True):
    name: str = ""
    port: int = 0


class ServiceSpec(Struct, frozen=True):
    clusterIP: str = ""
    selector: dict[str, str] = {}
    ports: tuple[ServicePort, ...] = ()


class Service(Struct, frozen=True):
    metadata: Meta = Meta()
    spec: ServiceSpec = ServiceSpec()


class ConfigMap(Struct, frozen=True):
    metadata: Meta = Meta()
    data: dict[str, str] = {}


class Named(Struct, frozen=True):
    """Any object of which only the metadata matters."""

    metadata: Meta = Meta()


class PodGroupSpec(Struct, frozen=True):
    minMember: int = 0
    minResources: Quantities | None = None
    queue: str = ""
    priorityClassName: str = ""
    scheduleTimeoutSeconds: int | None = None


class PodGroupStatus(Struct, frozen=True):
    phase: str = ""
    conditions: tuple[ObjectCondition, ...] = ()


class PodGroup(Struct, frozen=True):
    """Volcano's or the scheduler plugins' group of pods that are placed together."""

    metadata: Meta = Meta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


# Any: most of what passes through us is only understood by the API server.
Object = dict[str, Any]
Template = Mapping[str, Any]


def table(of: Template, field: str) -> Template:
    """A part of an object; an absent one and a null are the same as an empty one."""
    found: Template | None = of.get(field)
    return found or {}


def items(of: Template, field: str) -> list[Object]:
    found: list[Object] | None = of.get(field)
    return found or []
