"""Keeps the pod group of each job, and reads from it when the gang scheduler lets the pods be made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from bireme import errors
from bireme.backends.kubernetes.client.api import Api, ApiError, Expected
from bireme.backends.kubernetes.client.informer import Scoped
from bireme.backends.kubernetes.client.paths import path
from bireme.backends.kubernetes.objects import pod_groups
from bireme.backends.kubernetes.objects.api_types import Meta, Named, Pod, PodGroup, seconds
from bireme.backends.kubernetes.owned_objects import foreign
from bireme.model.job import Job
from bireme.model.replicas import Admission, Granted, Waiting

ASKED = "bireme.io/asked"
"""The annotation of a group by which a scheduler is made to look again: it looks at what has changed."""
UNSCHEDULABLE = "Unschedulable"
"""The reason of a pod for which its scheduler finds no node."""


class PriorityClass(Struct, frozen=True):
    metadata: Meta = Meta()
    value: int = 0


class _PriorityClasses(Struct, frozen=True):
    items: tuple[PriorityClass, ...] = ()


async def require(api: Api, scheduler: str) -> None:
    """Raises if the cluster does not know the pod groups of a gang scheduler that it is said to have."""
    version = pod_groups.api_version(scheduler)
    try:
        await api.get(path(version, pod_groups.PLURAL), dict, limit="1")
    except ApiError as error:
        if error.status != 404:
            raise
        raise errors.BadInput(
            f"the gang scheduler {scheduler} needs {pod_groups.PLURAL}.{version.partition('/')[0]}, "
            "which this cluster does not define",
            hint="install the scheduler first, or leave out --gang-scheduler-name",
        ) from None


class Gangs:
    """The pod groups of all jobs; without a gang scheduler no job has one, and each may start."""

    def __init__(self, api: Api, scheduler: str, groups: Scoped[PodGroup] | None) -> None:
        self._api, self._scheduler, self._groups = api, scheduler, groups
        self._formed: dict[str, Job] = {}
        """What each group was made of: a job that was changed since has it made anew."""

    def forget(self, uid: str) -> None:
        self._formed.pop(uid, None)

    def holds(self, job: Job) -> bool:
        """Whether the job has a group, be it of an operator before us."""
        return self._group(job) is not None

    def is_stale(self, job: Job) -> bool:
        """Whether the job has a group that was made of something else, or by another program."""
        return self.holds(job) and self._formed.get(job.uid) != job

    async def form(self, job: Job, templates: Mapping[str, dict[str, Any]]) -> bool:
        """Make the job's pod group, or bring it up to date; tells whether there was anything to do."""
        if self._groups is None or (self.holds(job) and not self.is_stale(job)):
            return False
        by_role = {role.name: templates[role.type] for role in job.roles}
        priorities: dict[str, int] = {}
        try:
            found = await self._api.get(path("scheduling.k8s.io/v1", "priorityclasses"), _PriorityClasses)
            priorities = {priority.metadata.name: priority.value for priority in found.items}
        except ApiError as error:
            if error.status != 403:
                raise
        group = pod_groups.podgroup(job, self._scheduler, by_role, priorities)
        self._groups.learn(await self._make(job, group))
        self._formed[job.uid] = job
        return True

    async def dissolve(self, job: Job) -> None:
        group = self._group(job)
        if self._groups is None or group is None:
            return
        await self._api.delete(self._where(job, job.name), Named, uid=group.metadata.uid)
        self._groups.forget(group)
        self.forget(job.uid)

    def admission(self, job: Job, granted: Granted) -> Admission | None:
        """What the gang scheduler says: None where the group has to be formed first."""
        if self._groups is None:
            return granted
        group = self._group(job)
        if group is None:
            return None
        if pod_groups.is_admitted(self._scheduler, group):
            return granted
        return Waiting(granted.attempt, pod_groups.waiting(job, self._scheduler))

    def unplaced_since(self, job: Job, pods: Iterable[Pod]) -> float | None:
        """Since when the scheduler finds no node for a pod and was not reminded.

        None where it finds one for each, and with Volcano, which looks every second.
        """
        group = self._group(job)
        if group is None or self._scheduler == pod_groups.VOLCANO:
            return None
        found = [pod.condition("PodScheduled") for pod in pods if pod.metadata.deletionTimestamp is None]
        since = [
            seconds(condition.lastTransitionTime) or seconds(group.metadata.creationTimestamp) or 0.0
            for condition in found
            if condition is not None and condition.status == "False" and condition.reason == UNSCHEDULABLE
        ]
        asked = group.metadata.annotations.get(ASKED, "")
        return max(min(since), float(asked) if asked.isdecimal() else 0.0) if since else None

    async def remind(self, job: Job, now: float) -> None:
        """Have the scheduler look again at the job's group."""
        group = self._group(job)
        if self._groups is None or group is None:
            return
        change = {"metadata": {"annotations": {ASKED: str(int(now))}}}
        where, meant = self._where(job, job.name), Expected(group.metadata.uid)
        self._groups.learn(await self._api.patch(where, change, PodGroup, meant=meant))

    def _group(self, job: Job) -> PodGroup | None:
        found = self._groups.get(job.namespace, job.name) if self._groups is not None else None
        return found if found is not None and _owner(found) == job.uid else None

    async def _make(self, job: Job, group: dict[str, Any]) -> PodGroup:
        found = self._group(job)
        if found is None:
            try:
                return await self._api.create(self._where(job), group, PodGroup)
            except ApiError as error:
                if not error.name_is_taken:
                    raise
            found = await self._api.get(self._where(job, job.name), PodGroup)
            if _owner(found) != job.uid:
                raise foreign("PodGroup", job.name)
        group["spec"].pop("queue", None)  # It stays in the queue that it stands in.
        meant = Expected(found.metadata.uid)
        return await self._api.patch(self._where(job, job.name), group, PodGroup, meant=meant)

    def _where(self, job: Job, name: str = "") -> str:
        return path(pod_groups.api_version(self._scheduler), pod_groups.PLURAL, job.namespace, name)


def _owner(group: PodGroup) -> str:
    owner = group.metadata.controller
    return owner.uid if owner is not None else ""
