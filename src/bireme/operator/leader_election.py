"""Lets one of several operators act: the one that holds the Lease, for as long as it renews it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Iterable
from datetime import UTC, datetime
from typing import Any

from bireme.backends.kubernetes.client.api import Api, ApiError, Expected
from bireme.backends.kubernetes.client.paths import path
from bireme.backends.kubernetes.operators import Lease, LeaseSpec, scope_annotations
from bireme.core.clock import Clock

LASTS = 15
"""Seconds after which a lease that was not renewed may be taken over."""
GIVE_UP = 10.0
"""Seconds without a renewal after which a leader stops acting: before another operator begins."""
RENEW = 2.0

LEASES = "coordination.k8s.io/v1"
_log = logging.getLogger(__name__)


class LostLead(Exception):
    """Another operator may act now, so this one must not."""


class Leadership:
    """One operator's claim to the lease, which also says what it serves; none of a sort means all."""

    def __init__(
        self,
        api: Api,
        namespace: str,
        name: str,
        identity: str,
        clock: Clock,
        kinds: Iterable[str] = (),
        namespaces: Iterable[str] = (),
    ) -> None:
        self._api, self.identity, self._clock = api, identity, clock
        self._all = path(LEASES, "leases", namespace)
        self._one = path(LEASES, "leases", namespace, name)
        self._namespace, self._name = namespace, name
        self._annotations = scope_annotations(kinds, namespaces)
        self._held: Lease | None = None
        self._seen: LeaseSpec | None = None
        self._since = 0.0

    async def take(self) -> None:
        """Wait until the lease is ours."""
        waits = False
        while not await self._try():
            if not waits and self._seen is not None:
                _log.info("waiting for the lead", extra={"holder": self._seen.holderIdentity})
                waits = True
            await asyncio.sleep(RENEW)
        _log.info("leading", extra={"identity": self.identity})

    async def keep(self) -> None:
        """Renew the lease until that fails for too long."""
        renewed = self._clock.monotonic()
        while True:
            await asyncio.sleep(RENEW)
            began = self._clock.monotonic()
            try:
                async with asyncio.timeout(max(0.1, renewed + GIVE_UP - began)):
                    if await self._try():
                        renewed = began
                        continue
                    raise LostLead(f"the lease {self._name} is held by another operator")
            except (ApiError, OSError, TimeoutError) as error:
                if self._clock.monotonic() - renewed >= GIVE_UP:
                    raise LostLead(f"the lease {self._name} could not be renewed: {error}") from error

    async def leave(self) -> None:
        """Give the lease back, so that the next operator need not wait."""
        if self._held is not None:
            with contextlib.suppress(ApiError, OSError, TimeoutError):
                async with asyncio.timeout(RENEW):
                    await self._write(self._held, {"holderIdentity": "", "leaseDurationSeconds": 1})

    async def _try(self) -> bool:
        try:
            lease = await self._api.get(self._one, Lease)
        except ApiError as error:
            if error.status != 404:
                raise
            body = {
                "apiVersion": LEASES,
                "kind": "Lease",
                "metadata": {
                    "name": self._name,
                    "namespace": self._namespace,
                    "annotations": self._annotations,
                },
                "spec": self._ours(LeaseSpec()),
            }
            return await self._won(self._api.create(self._all, body, Lease))
        spec = lease.spec
        if spec.holderIdentity and spec.holderIdentity != self.identity:
            # It has run out by our own clock or not at all: other machines' clocks are not believed.
            if spec != self._seen:
                self._seen, self._since = spec, self._clock.monotonic()
            if self._clock.monotonic() - self._since <= (spec.leaseDurationSeconds or LASTS):
                self._held = None
                return False
        return await self._write(lease, self._ours(spec))

    def _ours(self, before: LeaseSpec) -> dict[str, Any]:
        now = micro_time(self._clock.time())
        spec: dict[str, Any] = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": LASTS,
            "renewTime": now,
        }
        if before.holderIdentity != self.identity:
            spec |= {"acquireTime": now, "leaseTransitions": (before.leaseTransitions or 0) + 1}
        return spec

    async def _write(self, lease: Lease, spec: dict[str, Any]) -> bool:
        meant = Expected(lease.metadata.uid, lease.metadata.resourceVersion)
        change = {"metadata": {"annotations": self._annotations}, "spec": spec}
        return await self._won(self._api.patch(self._one, change, Lease, meant=meant))

    async def _won(self, writing: Awaitable[Lease]) -> bool:
        try:
            self._held = await writing
        except ApiError as error:
            if error.status != 409:
                raise
            return False
        return True


def micro_time(now: float) -> str:
    """A time of day as the API writes it in leases."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
