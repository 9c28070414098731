"""Finds which operator serves the jobs of a cluster: Bireme's, Kubeflow's, or none that can be seen."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from bireme.backends.kubernetes.client.api import Api, ApiError
from bireme.backends.kubernetes.client.paths import path
from bireme.backends.kubernetes.objects.api_types import Meta, seconds
from bireme.backends.kubernetes.objects.job_objects import selector
from bireme.backends.kubernetes.submit.job_client import Served

LEASE = "bireme-operator"
UNELECTED_LABELS = {"bireme.io/operator": "unelected"}
NAMESPACE = "bireme-system"
KINDS = "bireme.io/kinds"
"""The annotation of the lease that says which kinds its holder serves; without it, all of them."""
NAMESPACES = "bireme.io/namespaces"
"""The annotation that says which namespaces it watches; without it, all of them."""
STALE = 30.0
"""Seconds after which a lease that was not renewed says that its operator is gone."""


class Operator(StrEnum):
    OURS = "ours"
    ASLEEP = "asleep"
    """Our definitions are there, and no operator of ours holds its lease."""
    KUBEFLOW = "kubeflow"
    OTHER_KINDS = "other kinds"
    """Our operator is there, and was told to serve other kinds only."""
    OTHER_NAMESPACES = "other namespaces"
    """Our operator is there, and was told to watch other namespaces only."""
    UNKNOWN = "unknown"
    """Our definitions are there, and we may not look for the operator."""


class LeaseSpec(Struct, frozen=True):
    holderIdentity: str | None = None
    renewTime: str | None = None
    leaseDurationSeconds: int | None = None
    acquireTime: str | None = None
    leaseTransitions: int | None = None


class Lease(Struct, frozen=True):
    metadata: Meta = Meta()
    spec: LeaseSpec = LeaseSpec()

    def is_fresh(self, now: float) -> bool:
        renewed = seconds(self.spec.renewTime)
        return bool(self.spec.holderIdentity) and renewed is not None and now - renewed < STALE

    def serves(self, kind: str) -> bool:
        return self._covers(KINDS, kind)

    def watches(self, namespace: str) -> bool:
        return self._covers(NAMESPACES, namespace)

    def shares_jobs(self, kinds: Iterable[str], namespaces: Iterable[str]) -> bool:
        """Whether some jobs are both its holder's and of this scope, where none of a sort means all."""
        return _meet(self._said(KINDS), kinds) and _meet(self._said(NAMESPACES), namespaces)

    def rivals(self, other: Lease) -> bool:
        """Whether two operators act on the same jobs."""
        differ = self.spec.holderIdentity != other.spec.holderIdentity
        return differ and self.shares_jobs(other._said(KINDS), other._said(NAMESPACES))

    def _covers(self, annotation: str, name: str) -> bool:
        return _meet(self._said(annotation), (name,))

    def _said(self, annotation: str) -> tuple[str, ...]:
        said = self.metadata.annotations.get(annotation, "")
        return tuple(said.split(",")) if said else ()


def _meet(some: Iterable[str], others: Iterable[str]) -> bool:
    """Whether two choices have a name in common; no name means all of them."""
    first, other = frozenset(some), frozenset(others)
    return not first or not other or not first.isdisjoint(other)


def scope_annotations(kinds: Iterable[str], namespaces: Iterable[str]) -> dict[str, str]:
    """What a lease says of the operator that holds it."""
    return {KINDS: ",".join(kinds), NAMESPACES: ",".join(namespaces)}


async def find(api: Api, known: Served, kinds: Iterable[str], namespace: str) -> dict[str, Operator]:
    """Looks for the operator that serves each of the kinds in a namespace."""
    if not known.is_ours:
        return dict.fromkeys(kinds, Operator.KUBEFLOW)
    leases = await find_leases(api)
    if leases is None:
        return dict.fromkeys(kinds, Operator.UNKNOWN)
    now = api.access.clock.time()
    fresh = [lease for lease in leases if lease.is_fresh(now)]
    if not fresh:
        return dict.fromkeys(kinds, Operator.ASLEEP)
    watching = [lease for lease in fresh if lease.watches(namespace)]
    if not watching:
        return dict.fromkeys(kinds, Operator.OTHER_NAMESPACES)
    return {
        kind: Operator.OURS if any(lease.serves(kind) for lease in watching) else Operator.OTHER_KINDS
        for kind in kinds
    }


def rivals(leases: Iterable[Lease], namespace: str, now: float) -> tuple[str, ...]:
    """The operators that act on the same jobs of a namespace, as they do without election. Pure."""
    fresh = [lease for lease in leases if lease.is_fresh(now) and lease.watches(namespace)]
    return _holders(lease for lease in fresh if any(lease.rivals(other) for other in fresh))


def acting(
    leases: Iterable[Lease], kinds: Iterable[str], namespaces: Iterable[str], now: float
) -> tuple[str, ...]:
    """The operators that act now on some jobs of a scope, where none of a sort means all. Pure."""
    chosen = tuple(kinds), tuple(namespaces)
    return _holders(lease for lease in leases if lease.is_fresh(now) and lease.shares_jobs(*chosen))


def _holders(leases: Iterable[Lease]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(lease.spec.holderIdentity or "" for lease in leases))


async def find_leases(api: Api, namespace: str = NAMESPACE) -> tuple[Lease, ...] | None:
    """The leases of our operators, in all namespaces or else in this one; None if we may not look."""
    label = selector(UNELECTED_LABELS)
    for where in (
        path("coordination.k8s.io/v1", "leases"),
        path("coordination.k8s.io/v1", "leases", namespace),
    ):
        try:
            elected = await api.listing(where, Lease, fieldSelector=f"metadata.name={LEASE}")
            unelected = await api.listing(where, Lease, labelSelector=label)
        except ApiError as error:
            if error.status not in (403, 404):
                raise
        else:
            return (*elected.items, *unelected.items)
    return None


def sentence(operator: Operator, kind: str, namespace: str) -> str:
    """What a user should know about it; empty if all is well."""
    match operator:
        case Operator.OURS | Operator.UNKNOWN:
            return ""
        case Operator.ASLEEP:
            return (
                "no operator of Bireme was seen in this cluster: the job waits for one (`bireme install`; "
                "`bireme doctor --on kubernetes` says what is wrong with one that is installed)"
            )
        case Operator.OTHER_KINDS:
            return (
                f"Bireme's operator here does not serve {kind}, so the job waits: `bireme install` without "
                f"--kind lets it serve every kind, with --kind for each also {kind}"
            )
        case Operator.OTHER_NAMESPACES:
            return (
                f"Bireme's operator here does not watch namespace {namespace}, so the job waits: start it "
                f"without --namespace, or also with --namespace {namespace}"
            )
        case Operator.KUBEFLOW:
            return (
                f"Kubeflow's own operator serves {kind} here: there are no restarts of the whole gang, no "
                "replacement on lost nodes, and no reasons in the job's status; `bireme install` brings them"
            )
