"""Who looks after the jobs of a cluster: Bireme's operator, Kubeflow's own, or nobody that we can see."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import Struct

from bireme.backends.kubernetes.api import Api, ApiError
from bireme.backends.kubernetes.jobs import Served
from bireme.backends.kubernetes.paths import path
from bireme.backends.kubernetes.views import Meta, seconds

LEASE = "bireme-operator"
NAMESPACE = "bireme-system"
KINDS = "bireme.io/kinds"
"""The annotation of the lease that says which kinds its holder serves; without it, all of them."""
STALE = 30.0
"""Seconds after which a lease that nobody renewed says that its operator is gone."""


class Operator(StrEnum):
    OURS = "ours"
    ASLEEP = "asleep"
    """Our definitions are there, and no operator of ours holds its lease."""
    KUBEFLOW = "kubeflow"
    OTHER_KINDS = "other kinds"
    """Our operator is there, and was told to serve other kinds only."""
    UNKNOWN = "unknown"
    """Our definitions are there, and we may not look for the operator."""


class LeaseSpec(Struct, frozen=True):
    holderIdentity: str | None = None
    renewTime: str | None = None


class Lease(Struct, frozen=True):
    metadata: Meta = Meta()
    spec: LeaseSpec = LeaseSpec()

    def is_fresh(self, now: float) -> bool:
        renewed = seconds(self.spec.renewTime)
        return bool(self.spec.holderIdentity) and renewed is not None and now - renewed < STALE

    def serves(self, kind: str) -> bool:
        said = self.metadata.annotations.get(KINDS, "")
        return not said or kind in said.split(",")


async def find(api: Api, known: Served, kinds: Iterable[str]) -> dict[str, Operator]:
    """Looks for the operator that serves each of the kinds."""
    if not known.is_ours:
        return dict.fromkeys(kinds, Operator.KUBEFLOW)
    leases = await find_leases(api)
    if leases is None:
        return dict.fromkeys(kinds, Operator.UNKNOWN)
    now = time.time()
    fresh = [one for one in leases if one.is_fresh(now)]
    return {kind: _serving(fresh, kind) for kind in kinds}


def _serving(leases: Sequence[Lease], kind: str) -> Operator:
    if not leases:
        return Operator.ASLEEP
    return Operator.OURS if any(one.serves(kind) for one in leases) else Operator.OTHER_KINDS


async def find_leases(api: Api) -> tuple[Lease, ...] | None:
    """The leases of our operator, in whichever namespace it is; None if we may not look."""
    for where in (
        path("coordination.k8s.io/v1", "leases"),
        path("coordination.k8s.io/v1", "leases", NAMESPACE),
    ):
        try:
            return (await api.listing(where, Lease, fieldSelector=f"metadata.name={LEASE}")).items
        except ApiError as error:
            if error.status not in (403, 404):
                raise
    return None


def sentence(operator: Operator, kind: str) -> str:
    """What a user should know about it; empty if all is well."""
    match operator:
        case Operator.OURS | Operator.UNKNOWN:
            return ""
        case Operator.ASLEEP:
            return "no operator of Bireme was seen in this cluster: the job waits for one (`bireme install`)"
        case Operator.OTHER_KINDS:
            return (
                f"Bireme's operator here does not serve {kind}, so the job waits: `bireme install` without "
                f"--kind lets it serve every kind, with --kind for each also {kind}"
            )
        case Operator.KUBEFLOW:
            return (
                f"Kubeflow's own operator serves {kind} here: there are no restarts of the whole gang, no "
                "replacement on lost nodes, and no reasons in the job's status; `bireme install` brings them"
            )
