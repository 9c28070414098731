"""What does a job have in a cluster beside its pods: services, MPI's files, keys and rights, an autoscaler.

All of it belongs to the job and goes with it. What was made is remembered only to save requests: an operator
that starts anew makes everything again, and finds that it is there.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bireme.backends.kubernetes import autoscaling
from bireme.backends.kubernetes.api import Api, ApiError
from bireme.backends.kubernetes.paths import path
from bireme.backends.kubernetes.views import Named
from bireme.model.job import Job

Object = dict[str, Any]

_PLURALS = {
    "ConfigMap": "configmaps",
    "HorizontalPodAutoscaler": "horizontalpodautoscalers",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "Secret": "secrets",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
}
_MADE_ONCE = ("Secret", "Service", "ServiceAccount", "RoleBinding")
"""Kinds of objects that are left as they were made."""


class Belongings:
    def __init__(self, api: Api) -> None:
        self._api = api
        self._services: dict[str, set[str]] = {}
        self._kept: dict[str, bytes] = {}
        self._scalers: dict[str, bytes] = {}
        self._unscaled: set[str] = set()
        """Jobs whose autoscaler is known to be gone; an operator before us may have left one of any other."""

    def forget(self, uid: str) -> None:
        for known in (self._services, self._kept, self._scalers):
            known.pop(uid, None)
        self._unscaled.discard(uid)

    async def make_service(self, job: Job, service: Object) -> None:
        made = self._services.setdefault(job.uid, set())
        name = service["metadata"]["name"]
        if name not in made:
            await make(self._api, job, service)
            made.add(name)

    async def drop_service(self, job: Job, name: str) -> None:
        await self._api.delete(path("v1", "services", job.namespace, name), Named)
        self._services.get(job.uid, set()).discard(name)

    async def keep(self, job: Job, objects: list[Object]) -> ApiError | None:
        """Make what is missing and change what differs; returns the first refusal."""
        try:
            await self._keep_objects(job, objects)
            await self.keep_autoscaler(job)
        except ApiError as error:
            return error
        return None

    async def keep_autoscaler(self, job: Job) -> None:
        """Scale the job as its elastic policy says now; raises ApiError where that is refused."""
        scaler = autoscaling.autoscaler(job)
        if scaler is None:
            if job.uid in self._scalers:
                await self.drop_autoscaler(job)
            return
        digest = msgspec.json.encode(scaler)
        if self._scalers.get(job.uid) != digest:
            await make(self._api, job, scaler)
            self._scalers[job.uid] = digest
            self._unscaled.discard(job.uid)

    def has_autoscaler(self, job: Job) -> bool:
        return job.uid in self._scalers or (job.uid not in self._unscaled and autoscaling.scales(job))

    async def drop_autoscaler(self, job: Job) -> None:
        if self.has_autoscaler(job):
            where = path(autoscaling.API_VERSION, autoscaling.PLURAL, job.namespace, job.name)
            await self._api.delete(where, Named)
            self._scalers.pop(job.uid, None)
            self._unscaled.add(job.uid)

    async def _keep_objects(self, job: Job, objects: list[Object]) -> None:
        digest = msgspec.json.encode([one for one in objects if one["kind"] != "Secret"])
        if not objects or self._kept.get(job.uid) == digest:
            return
        for one in objects:
            await make(self._api, job, one)
        self._kept[job.uid] = digest


async def make(api: Api, job: Job, wanted: Object) -> None:
    """Make an object of the job, or change the one that is there; somebody else's is left alone."""
    try:
        await api.create(_where(wanted), wanted, Named)
        return
    except ApiError as error:
        if error.status != 409:
            raise
    if wanted["kind"] == "ServiceAccount":
        return  # A template may name one that others use as well.
    name = wanted["metadata"]["name"]
    found = await api.get(_where(wanted, name), Named)
    owner = found.metadata.controller
    if owner is None or owner.uid != job.uid:
        raise foreign(wanted["kind"], name)
    if wanted["kind"] not in _MADE_ONCE:
        await api.patch(_where(wanted, name), wanted, Named)


def foreign(kind: str, name: str) -> ApiError:
    what = f'a {kind} named "{name}" exists and is not of this job'
    text = f"{what}: delete it, or give the job another name"
    return ApiError(409, "AlreadyExists", text, {})


def _where(one: Object, name: str = "") -> str:
    return path(one["apiVersion"], _PLURALS[one["kind"]], one["metadata"]["namespace"], name)
