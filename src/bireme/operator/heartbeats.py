"""Shows that an operator without leader election is at work: by a lease that no operator waits for."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from bireme.backends.kubernetes.client.api import Api, ApiError, Expected
from bireme.backends.kubernetes.client.paths import path
from bireme.backends.kubernetes.operators import UNELECTED_LABELS, Lease, scope_annotations
from bireme.core.clock import Clock
from bireme.operator.controller import Scope
from bireme.operator.install.operator_objects import UNELECTED
from bireme.operator.leader_election import LEASES, micro_time

RENEW = 8.0
"""Seconds between two writes; a lease that is older than 30 s says that its operator is gone."""
LASTS = 30
_FALLBACK = "default"
_log = logging.getLogger(__name__)


class AllHeld(Exception):
    """Every lease that an operator without election may take is another's."""


class Heartbeat:
    """Renews a lease of its own while an operator acts; that it cannot be written stops nothing."""

    def __init__(self, api: Api, namespace: str, identity: str, scope: Scope, clock: Clock) -> None:
        self._api, self._identity, self._scope, self._clock = api, identity, scope, clock
        self._places = tuple(dict.fromkeys((namespace, *scope.namespaces, _FALLBACK)))
        self._kept: Lease | None = None
        self._warned = False

    async def keep(self) -> None:
        """Renews the lease for ever."""
        while True:
            try:
                async with asyncio.timeout(RENEW):
                    await self.beat()
            except (ApiError, OSError, TimeoutError, AllHeld) as error:
                if not self._warned:
                    _log.warning(
                        "its lease cannot be written: "
                        "`bireme run` and `bireme doctor` do not see this operator",
                        extra={"error": str(error)},
                    )
                self._warned = True
            await asyncio.sleep(RENEW)

    async def beat(self) -> None:
        """Renews the lease once."""
        if self._kept is None:
            self._kept = await self._begin()
            return
        meta = self._kept.metadata
        where = path(LEASES, "leases", meta.namespace, meta.name)
        try:
            meant = Expected(meta.uid, meta.resourceVersion)
            self._kept = await self._api.patch(where, self._change(), Lease, meant=meant)
        except ApiError as error:
            if error.status not in (404, 409):
                raise
            self._kept = await self._begin()  # It was deleted, or taken while this process was suspended.

    async def leave(self) -> None:
        """Deletes the lease, so that this operator no longer counts as alive."""
        if self._kept is None:
            return
        meta = self._kept.metadata
        where = path(LEASES, "leases", meta.namespace, meta.name)
        with contextlib.suppress(ApiError, OSError, TimeoutError):
            async with asyncio.timeout(2.0):
                now = await self._api.get(where, Lease)
                if now.spec.holderIdentity == self._identity:  # Else another took it meanwhile.
                    await self._api.delete(where, uid=meta.uid)

    async def _begin(self) -> Lease:
        """Writes the lease where that is possible: an operator outside a cluster may have no namespace."""
        for namespace in self._places[:-1]:
            try:
                return await self._written(namespace)
            except ApiError as error:
                if error.status not in (403, 404):
                    raise
        return await self._written(self._places[-1])

    async def _written(self, namespace: str) -> Lease:
        for name in UNELECTED:
            try:
                if (taken := await self._take(namespace, name)) is not None:
                    return taken
            except ApiError as error:
                if error.status != 409:
                    raise
                # Another operator was faster, and holds it now.
        raise AllHeld(f"{len(UNELECTED)} other operators without election hold a lease in {namespace}")

    async def _take(self, namespace: str, name: str) -> Lease | None:
        """The lease of this name, unless it is another's."""
        where = path(LEASES, "leases", namespace, name)
        try:
            there = await self._api.get(where, Lease)
        except ApiError as error:
            if error.status != 404:
                raise
            change = self._change()
            metadata = {**change["metadata"], "name": name, "namespace": namespace}
            body = {"apiVersion": LEASES, "kind": "Lease", **change, "metadata": metadata}
            return await self._api.create(path(LEASES, "leases", namespace), body, Lease)
        meta = there.metadata
        is_mine = there.spec.holderIdentity == self._identity
        if not UNELECTED_LABELS.items() <= meta.labels.items() or (
            not is_mine and there.is_fresh(self._clock.time())
        ):
            return None
        meant = Expected(meta.uid, meta.resourceVersion)  # Left by an operator that was killed.
        return await self._api.patch(where, self._change(), Lease, meant=meant)

    def _change(self) -> dict[str, Any]:
        now = micro_time(self._clock.time())
        annotations = scope_annotations(self._scope.kinds, self._scope.namespaces)
        return {
            "metadata": {"annotations": annotations, "labels": UNELECTED_LABELS},
            "spec": {"holderIdentity": self._identity, "leaseDurationSeconds": LASTS, "renewTime": now},
        }
