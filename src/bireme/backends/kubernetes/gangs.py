"""When may the pods of a job be made, where a gang scheduler places them together: its pod group tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from bireme.backends.kubernetes import podgroups
from bireme.backends.kubernetes.api import Api, ApiError
from bireme.backends.kubernetes.belongings import make
from bireme.backends.kubernetes.paths import path
from bireme.backends.kubernetes.views import Meta, Named, PodGroup
from bireme.model.job import Job
from bireme.model.replicas import Admission, Granted, Waiting


class PriorityClass(Struct, frozen=True):
    metadata: Meta = Meta()
    value: int = 0


class _PriorityClasses(Struct, frozen=True):
    items: tuple[PriorityClass, ...] = ()


class Gangs:
    """The pod groups of all jobs; without a gang scheduler nobody has one, and everybody may start."""

    def __init__(self, api: Api, scheduler: str) -> None:
        self._api, self._scheduler = api, scheduler
        self._formed: set[str] = set()
        self._admitted: set[str] = set()

    def forget(self, uid: str) -> None:
        self._formed.discard(uid)
        self._admitted.discard(uid)

    def holds(self, job: Job) -> bool:
        return job.uid in self._formed

    async def form(self, job: Job, templates: Mapping[str, dict[str, Any]]) -> None:
        """Make the job's pod group, or bring it up to date."""
        if not self._scheduler:
            return
        by_role = {role.name: templates[role.type] for role in job.roles}
        group = podgroups.podgroup(job, self._scheduler, by_role, await self._priorities())
        await make(self._api, job, group)
        self._formed.add(job.uid)

    async def dissolve(self, job: Job) -> None:
        if self._scheduler:
            await self._api.delete(self._where(job), Named)
            self.forget(job.uid)

    async def admission(self, job: Job, granted: Granted) -> Admission | None:
        """What the gang scheduler says: None where the group has to be formed first."""
        if not self._scheduler or job.uid in self._admitted:
            return granted
        if job.uid not in self._formed:
            return None
        try:
            group = await self._api.get(self._where(job), PodGroup)
        except ApiError as error:
            if error.status != 404:
                raise
            self._formed.discard(job.uid)
            return None
        if podgroups.is_admitted(self._scheduler, group):
            self._admitted.add(job.uid)
            return granted
        return Waiting(
            granted.attempt, f"waits for {self._scheduler} to make room for {podgroups.members(job)} pods"
        )

    async def _priorities(self) -> dict[str, int]:
        try:
            found = await self._api.get(path("scheduling.k8s.io/v1", "priorityclasses"), _PriorityClasses)
        except ApiError as error:
            if error.status != 403:
                raise
            return {}
        return {one.metadata.name: one.value for one in found.items}

    def _where(self, job: Job) -> str:
        return path(podgroups.api_version(self._scheduler), podgroups.PLURAL, job.namespace, job.name)
