"""Records what happened to a job as events of the cluster, which may be lost without harm."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Any

from bireme import kinds
from bireme.backends.kubernetes.client.api import Api, ApiError
from bireme.backends.kubernetes.client.paths import path
from bireme.backends.kubernetes.objects import job_status
from bireme.backends.kubernetes.objects.api_types import Named
from bireme.model.decisions import Event
from bireme.model.job import Job

MOST_WAITING = 10_000
"""Events that may wait to be sent; more are dropped."""
_LONGEST = 1024
_log = logging.getLogger(__name__)


class Teller:
    """Sends events beside the work, so that no step waits for them."""

    def __init__(self, api: Api, instance: str, clock: Callable[[], float]) -> None:
        self._api, self._instance, self._clock = api, instance, clock
        self._waiting: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue(MOST_WAITING)
        self._number = itertools.count()

    def tell(self, job: Job, events: tuple[Event, ...]) -> None:
        component = kinds.of(job).operator
        for event in events:
            now = self._clock()
            stamp = job_status.timestamp(now)
            body = {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {
                    "name": f"{job.name}.{int(now * 1e6):x}{next(self._number):x}",
                    "namespace": job.namespace,
                },
                "involvedObject": {
                    "apiVersion": job.api_version,
                    "kind": job.kind,
                    "name": job.name,
                    "namespace": job.namespace,
                    "uid": job.uid,
                },
                "type": str(event.type),
                "reason": event.reason,
                "message": event.message[:_LONGEST],
                "source": {"component": component},
                "reportingComponent": component,
                "reportingInstance": self._instance,
                "firstTimestamp": stamp,
                "lastTimestamp": stamp,
                "count": 1,
            }
            try:
                self._waiting.put_nowait((path("v1", "events", job.namespace), body))
            except asyncio.QueueFull:
                _log.warning("an event was dropped", extra={"job": job.name, "reason": event.reason})

    async def run(self) -> None:
        """Send events until cancelled."""
        while True:
            where, body = await self._waiting.get()
            try:
                await self._api.create(where, body, Named)
            except (ApiError, OSError, TimeoutError) as error:
                _log.warning("an event was not taken", extra={"error": str(error)})

    async def drain(self) -> None:
        """Send what is waiting, and no more."""
        while not self._waiting.empty():
            where, body = self._waiting.get_nowait()
            await self._api.create(where, body, Named)
