"""Looks up what a cluster offers to jobs, and which operator serves them; changes nothing.

What the user may not read is left open and said to be so; nothing of it is needed to run jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from bireme.backends.kubernetes import operators, rollouts
from bireme.backends.kubernetes.client.api import Api, ApiError
from bireme.backends.kubernetes.client.paths import path
from bireme.backends.kubernetes.objects.api_types import Meta, NodeObject
from bireme.backends.kubernetes.rollouts import Deployment, Standing
from bireme.backends.kubernetes.submit import job_client
from bireme.model import quantities
from bireme.model.pods import GPU_SUFFIXES

T = TypeVar("T")

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_SHARED = (
    "nfs",
    "cephfs",
    "efs",
    "filestore",
    "file.csi",
    "nas",
    "lustre",
    "juicefs",
    "gluster",
    "weka",
    "longhorn",
)
"""What the provisioners of storage that many nodes may write to are called; a class itself does not tell."""
_GPU_LABELS = ("nvidia.com/gpu.present", "feature.node.kubernetes.io/pci-10de.present", "amd.com/gpu")
_OWN_TAINTS = ("node.kubernetes.io/",)
"""Taints of nodes that are ill, which are told otherwise."""
_NEIGHBOURS = {
    "kueue.x-k8s.io": "Kueue",
    "scheduling.volcano.sh": "Volcano",
    "scheduling.x-k8s.io": "scheduler-plugins",
    "jobset.x-k8s.io": "JobSet",
    "trainer.kubeflow.org": "Kubeflow Trainer v2",
}
_NATIVE = "scheduling.k8s.io/v1alpha1"


class TaintFact(Struct, frozen=True):
    """A taint that keeps pods away which do not tolerate it."""

    taint: str
    nodes: int


class ClusterFacts(Struct, frozen=True, kw_only=True):
    """A cluster as its user sees it; None where the user may not look."""

    server: str
    context: str
    namespace: str
    kubernetes: str
    """The version of the API server."""
    kinds: dict[str, tuple[str, ...]] = {}
    """The versions in which each kind is served."""
    definitions: str = ""
    """Whose they are: `bireme`, `kubeflow`, or an empty text where none are there."""
    operator: str | None = None
    """The process that holds our operator's lease and renewed it just now; empty if none does."""
    rivals: tuple[str, ...] = ()
    """Operators of ours that act on the same jobs of the namespace: none, unless some skip the election."""
    installed: Standing | None = None
    """How the operator's Deployment fares; None where there is none, or the user may not look."""
    unserved: tuple[str, ...] = ()
    """Kinds that are defined, and that our operator was told not to serve."""
    watched: bool = True
    """Whether our operator watches the namespace, where it is there at all."""
    nodes: int | None = None
    ready_nodes: int = 0
    cpu: int = 0
    """Millicores that pods may have, all ready nodes together."""
    memory: int = 0
    """Bytes."""
    devices: dict[str, int] = {}
    """Extended resources, such as nvidia.com/gpu."""
    idle_gpu_nodes: tuple[str, ...] = ()
    """Nodes that say they have a GPU and offer none: their device plugin is missing or ill."""
    taints: tuple[TaintFact, ...] = ()
    """Of ready nodes, without those that jobs tolerate by themselves."""
    storage_classes: tuple[str, ...] | None = None
    default_class: str = ""
    shared_classes: tuple[str, ...] = ()
    """Those whose provisioner is known for volumes that many nodes may write to."""
    dns: bool | None = None
    """Whether the cluster's names are served."""
    neighbours: tuple[str, ...] = ()
    """Schedulers and queues that were found: Kueue, Volcano, scheduler-plugins, native gang scheduling."""


class _Version(Struct):
    gitVersion: str = ""


class _Group(Struct):
    name: str


class _Groups(Struct):
    groups: list[_Group] = []


class _StorageClass(Struct, frozen=True):
    metadata: Meta = Meta()
    provisioner: str = ""


class _Conditions(Struct, frozen=True):
    ready: bool | None = None


class _Endpoint(Struct, frozen=True):
    conditions: _Conditions = _Conditions()


class _Slice(Struct, frozen=True):
    metadata: Meta = Meta()
    endpoints: tuple[_Endpoint, ...] | None = ()


async def examine(api: Api, namespace: str) -> ClusterFacts:
    """Looks at everything that a job may need; raises only if the cluster does not answer at all."""
    version = await api.get("/version", _Version)
    known, groups, native, leases = await asyncio.gather(
        job_client.served(api),
        _allowed(api.get("/apis", _Groups)),
        job_client.serves(api, _NATIVE, "workloads"),
        operators.find_leases(api),
    )
    nodes, classes, dns, installed = await asyncio.gather(
        _allowed(api.listing(path("v1", "nodes"), NodeObject)),
        _allowed(api.listing(path("storage.k8s.io/v1", "storageclasses"), _StorageClass)),
        _dns(api),
        _installed(api),
    )
    now = api.access.clock.time()
    fresh = [lease for lease in leases or () if lease.is_fresh(now)]
    watching = [lease for lease in fresh if lease.watches(namespace)]
    there = {group.name for group in groups.groups} if groups else set()
    neighbours = [name for group, name in _NEIGHBOURS.items() if group in there]
    facts = ClusterFacts(
        server=api.access.server,
        context=api.access.context,
        namespace=namespace,
        kubernetes=version.gitVersion,
        kinds={str(kind): versions for kind, versions in known.versions.items()},
        definitions="" if not known.versions else "bireme" if known.is_ours else "kubeflow",
        # None where leases may not be read: then it cannot be told.
        operator=None if leases is None else next((lease.spec.holderIdentity or "" for lease in fresh), ""),
        rivals=operators.rivals(leases or (), namespace, now),
        installed=installed,
        unserved=tuple(
            str(kind)
            for kind in known.versions
            if watching and not any(lease.serves(kind) for lease in watching)
        ),
        watched=not fresh or bool(watching),
        dns=dns,
        neighbours=(*neighbours, *(["native gang scheduling"] if native else [])),
    )
    if nodes is not None:
        facts = with_nodes(facts, nodes.items)
    return facts if classes is None else _with_classes(facts, classes.items)


def with_nodes(facts: ClusterFacts, nodes: Sequence[NodeObject]) -> ClusterFacts:
    """Adds what nodes offer. Pure."""
    usable = [node for node in nodes if node.is_ready and not node.spec.unschedulable]
    devices: dict[str, int] = {}
    for node in usable:
        for name, amount in node.status.allocatable.items():
            if "/" in name and not name.startswith(("hugepages-", "attachable-volumes-")):
                devices[name] = devices.get(name, 0) + int(quantities.parse(amount))
    return replace(
        facts,
        nodes=len(nodes),
        ready_nodes=len(usable),
        cpu=sum(quantities.milli(node.status.allocatable.get("cpu", 0)) for node in usable),
        memory=sum(int(quantities.parse(node.status.allocatable.get("memory", 0))) for node in usable),
        devices={name: count for name, count in devices.items() if count},
        idle_gpu_nodes=tuple(node.metadata.name for node in usable if _has_idle_gpu(node)),
        taints=_taints(usable),
    )


def _has_idle_gpu(node: NodeObject) -> bool:
    labelled = any(node.metadata.labels.get(label) == "true" for label in _GPU_LABELS)
    return labelled and not any(
        name.endswith(GPU_SUFFIXES) and quantities.parse(amount)
        for name, amount in node.status.allocatable.items()
    )


def _taints(nodes: Sequence[NodeObject]) -> tuple[TaintFact, ...]:
    counts: dict[str, int] = {}
    for node in nodes:
        for taint in node.spec.taints:
            # A replica that asks for a device tolerates the taint of that name by itself.
            own = taint.key in node.status.allocatable or taint.key.startswith(_OWN_TAINTS)
            if taint.effect in ("NoSchedule", "NoExecute") and not own:
                value = f"={taint.value}" if taint.value else ""
                written = f"{taint.key}{value}:{taint.effect}"
                counts[written] = counts.get(written, 0) + 1
    return tuple(TaintFact(taint, count) for taint, count in sorted(counts.items()))


def _with_classes(facts: ClusterFacts, classes: Sequence[_StorageClass]) -> ClusterFacts:
    default = [storage for storage in classes if storage.metadata.annotations.get(DEFAULT_CLASS) == "true"]
    shared = [storage for storage in classes if any(word in storage.provisioner.lower() for word in _SHARED)]
    return replace(
        facts,
        storage_classes=tuple(storage.metadata.name for storage in classes),
        default_class=default[0].metadata.name if default else "",
        shared_classes=tuple(storage.metadata.name for storage in shared),
    )


async def _installed(api: Api) -> Standing | None:
    """How the operator's Deployment fares, in whichever namespace it is."""
    for where in (path("apps/v1", "deployments"), path("apps/v1", "deployments", operators.NAMESPACE)):
        chosen = f"metadata.name={operators.LEASE}"
        found = await _allowed(api.listing(where, Deployment, fieldSelector=chosen))
        if found is not None and found.items:
            seen = await _allowed(rollouts.see(api, found.items[0]))
            return None if seen is None else rollouts.judge(seen)
    return None


async def _dns(api: Api) -> bool | None:
    where = path("discovery.k8s.io/v1", "endpointslices", "kube-system")
    for label in ("kubernetes.io/service-name=kube-dns", "kubernetes.io/service-name=coredns"):
        slices = await _allowed(api.listing(where, _Slice, labelSelector=label))
        if slices is None:
            return None
        endpoints = [endpoint for each in slices.items for endpoint in each.endpoints or ()]
        if any(endpoint.conditions.ready is not False for endpoint in endpoints):
            return True
    return False


async def _allowed(asking: Awaitable[T]) -> T | None:
    """The answer, or None if we may not ask, or there is nothing of that kind."""
    try:
        return await asking
    except ApiError as error:
        if error.status not in (403, 404):
            raise
        return None
