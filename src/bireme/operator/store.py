"""Keeps the jobs of a cluster: in their objects, whose status is our whole memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from bireme import errors, kinds
from bireme.backends.kubernetes.client.api import Api, ApiError, Expected
from bireme.backends.kubernetes.client.informer import Scoped
from bireme.backends.kubernetes.client.paths import path
from bireme.backends.kubernetes.objects import job_objects, job_status
from bireme.backends.kubernetes.objects.api_types import Named
from bireme.backends.kubernetes.objects.job_objects import JobObject
from bireme.engine.step import Conflict, Stored
from bireme.manifest import read
from bireme.model.decisions import Decision
from bireme.model.job import Job
from bireme.model.status import Status
from bireme.operator.event_recorder import Teller

OURS = ("", "kubeflow.org/training-operator", "kubeflow.org/mpi-operator")
"""Values of `managedBy` with which a job is ours."""


class JobKey(Struct, frozen=True):
    """Names a job; as a text it is `plural/namespace/name`."""

    plural: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.plural}/{self.namespace}/{self.name}"

    @classmethod
    def of(cls, text: str) -> JobKey:
        return cls(*text.split("/"))


class _Parsed(Struct, frozen=True):
    generation: int
    annotations: dict[str, str]
    job: Job
    templates: dict[str, dict[str, Any]]


class ClusterStore:
    def __init__(
        self,
        api: Api,
        jobs: Mapping[str, Scoped[JobObject]],
        teller: Teller,
        clock: Callable[[], float],
        recorded: Callable[[Job, Status, Status], None],
    ) -> None:
        self._api, self._jobs, self._teller = api, jobs, teller
        self._clock, self._recorded = clock, recorded
        self._parsed: dict[str, _Parsed] = {}
        self._late: dict[str, float] = {}
        """By when a status has to be written that a decision put off."""
        self._own: dict[str, int] = {}
        """What we wrote last of each job, as a hash."""
        self._doubtful: set[str] = set()
        """Jobs of which a write was refused, or not answered: what we know of them may be old."""

    def find(self, key: str) -> JobObject | None:
        wanted = JobKey.of(key)
        cache = self._jobs.get(wanted.plural)
        return cache.get(wanted.namespace, wanted.name) if cache is not None else None

    def templates(self, key: str) -> Mapping[str, dict[str, Any]]:
        """The pod template of each role as written, by the type of the role; none where it cannot be read."""
        known = self.find(key)
        if known is None:
            return {}
        try:
            return self._parse(known).templates
        except errors.BadManifest:
            return {}  # It was changed since it was seen; the next step says what is wrong with it.

    def forget(self, key: str, uid: str) -> None:
        self._parsed.pop(uid, None)
        self._late.pop(key, None)
        self._own.pop(uid, None)
        self._doubtful.discard(key)

    async def load(self, key: str) -> Stored | None:
        if key in self._doubtful:
            # Nothing is decided on a view that may be older than our own last write.
            try:
                fresh = await self._api.get(self._where(key), JobObject)
            except ApiError as error:
                if error.status != 404:
                    raise
                return None
            self._jobs[JobKey.of(key).plural].learn(fresh)
            self._doubtful.discard(key)
        stored = self.find(key)
        if stored is None or stored.metadata.deletionTimestamp is not None:
            return None
        meta, status = stored.metadata, job_status.read(stored.status)
        try:
            job = self._parse(stored).job
        except errors.BadManifest as error:
            unreadable = Job(stored.kind, stored.apiVersion, meta.name, (), meta.namespace, meta.uid)
            return Stored(unreadable, status, meta.resourceVersion, problem=error.what)
        if job.policy.managed_by not in OURS:
            return None
        # Where the status is not as we wrote it, another operator did, and may have seen more pods than we.
        raw = bytes(stored.status)
        is_own = not raw or self._own.get(meta.uid) == hash(raw)
        not_before = "" if is_own else meta.resourceVersion
        return Stored(job, status, meta.resourceVersion, not_before, self._late.get(key, float("inf")))

    async def record(self, key: str, before: Stored, decision: Decision) -> None:
        """Keep the decision's status in the object of the job, then tell its events.

        A decision may let its status wait (`record_by`). Then nothing is sent, and only the time is kept, not
        the status: the next step starts from the old one again, sees at least as much, and decides the same
        or more, so the write that comes at last holds everything. If this process dies first, the operator
        after it decides the same from the same old status. What must not be seen twice never waits: see
        `core.recording`. Events beside a status that waits tell of actions, which the next look finds done.

        Every other status is written before anything is done, upon the version that was read. Where the write
        is refused, another operator or a person wrote in between; where it is not answered, it is unknown
        whether it was done. Both make the job doubtful: the watch may still show what was there before, so
        the next `load` asks the API server itself. A decision upon the older view would count losses again.
        """
        status = decision.status
        if status.expired:
            await self._api.delete(self._where(key), Named, uid=before.job.uid, propagation="Background")
            return
        if status != before.status and decision.record_by is not None:
            self._late[key] = decision.record_by
        elif status != before.status:
            # Forgotten before the write, not after it: if this one is refused, the status that is read then
            # is another one, and what may wait upon that is decided anew.
            self._late.pop(key, None)
            value = job_status.written(before.job, status, self._clock())
            patch = [{"op": "add", "path": "/status", "value": value}]
            meant = Expected(before.job.uid, before.version)
            try:
                where = self._where(key, "status")
                written = await self._api.patch(where, patch, JobObject, meant=meant, how="json")
            except ApiError as error:
                self._doubtful.add(key)
                if error.status in (404, 409):
                    raise Conflict from error
                raise
            self._own[written.metadata.uid] = hash(bytes(written.status))
            # The watch tells of it later: a step before that must not start from the status before this one.
            self._jobs[JobKey.of(key).plural].learn(written)
            self._recorded(before.job, before.status, status)
        self._teller.tell(before.job, decision.events)

    def _parse(self, stored: JobObject) -> _Parsed:
        known = self._parsed.get(stored.metadata.uid)
        if (
            known is not None
            and known.generation == stored.metadata.generation
            and known.annotations == stored.metadata.annotations
        ):
            return known
        manifest = job_objects.manifest(stored)
        (found,) = read.from_manifest(manifest, file=stored.metadata.name).jobs
        job = replace(found.job, uid=stored.metadata.uid)
        specs = manifest["spec"][kinds.of(job).specs]
        by_name = {str(type).lower(): spec.get("template") or {} for type, spec in specs.items()}
        templates = {role.type: by_name[role.name] for role in job.roles}
        parsed = _Parsed(stored.metadata.generation, stored.metadata.annotations, job, templates)
        self._parsed[stored.metadata.uid] = parsed
        return parsed

    def _where(self, key: str, sub: str = "") -> str:
        wanted = JobKey.of(key)
        return path(version(wanted.plural), wanted.plural, wanted.namespace, wanted.name, sub)


def version(plural: str) -> str:
    """The version in which we read a kind's objects; a kind with several says in each how it was written."""
    return next(kind for kind in kinds.KINDS if kind.plural == plural).api_versions[0]
