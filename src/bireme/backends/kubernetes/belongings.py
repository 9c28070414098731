"""What does a job have in a cluster beside its pods: services, MPI's files, keys and rights, an autoscaler.

All of it belongs to the job and goes with it. What was made is remembered only to save requests: an operator
that starts anew makes everything again, and finds that it is there.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from bireme.backends.kubernetes import autoscaling
from bireme.backends.kubernetes.api import Api, ApiError
from bireme.backends.kubernetes.paths import path
from bireme.backends.kubernetes.views import Named
from bireme.model.job import Job

Object = dict[str, Any]

_PLURALS = {
    "ConfigMap": "configmaps",
    "HorizontalPodAutoscaler": "horizontalpodautoscalers",
    "PodGroup": "podgroups",
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

    def forget(self, uid: str) -> None:
        self._services.pop(uid, None)
        self._kept.pop(uid, None)

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
        scaler = autoscaling.autoscaler(job)
        wanted = [*objects, *([scaler] if scaler is not None else [])]
        if not wanted:
            return None
        digest = msgspec.json.encode([one for one in wanted if one["kind"] != "Secret"])
        if self._kept.get(job.uid) == digest:
            return None
        try:
            for one in wanted:
                await make(self._api, job, one)
        except ApiError as error:
            return error
        self._kept[job.uid] = digest
        return None

    def has_autoscaler(self, job: Job) -> bool:
        return job.uid in self._kept and _autoscaler(job) is not None

    async def drop_autoscaler(self, job: Job) -> None:
        scaler = _autoscaler(job)
        if scaler is not None:
            await self._api.delete(_where(scaler, scaler["metadata"]["name"]), Named)
            self._kept.pop(job.uid, None)


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


def _autoscaler(job: Job) -> Object | None:
    """The autoscaler that the job has while it is not put aside."""
    return autoscaling.autoscaler(replace(job, policy=replace(job.policy, suspend=False)))


def foreign(kind: str, name: str) -> ApiError:
    what = f'a {kind} named "{name}" exists and is not of this job'
    text = f"{what}: delete it, or give the job another name"
    return ApiError(409, "AlreadyExists", text, {})


def _where(one: Object, name: str = "") -> str:
    return path(one["apiVersion"], _PLURALS[one["kind"]], one["metadata"]["namespace"], name)
