"""Where are the jobs of a cluster kept: in their objects, whose status is our whole memory.

A status that only grew by what the next look would find again is written a little later, together with what
follows: a job that starts costs one write instead of one for each of its pods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from bireme import errors, kinds
from bireme.backends.kubernetes.client.api import Api, ApiError
from bireme.backends.kubernetes.client.paths import path
from bireme.backends.kubernetes.client.preconditions import Expected
from bireme.backends.kubernetes.client.scoped_informers import Scoped
from bireme.backends.kubernetes.objects import job_objects, job_status
from bireme.backends.kubernetes.objects.api_types import Named
from bireme.backends.kubernetes.objects.job_objects import JobObject
from bireme.engine.step import Conflict, Stored
from bireme.manifest import read
from bireme.model.decisions import Decision, Event, EventType
from bireme.model.job import Job, Kind
from bireme.model.status import Condition, ConditionType, Phase, Status
from bireme.operator.event_recorder import Teller

SETTLE = 1.0
"""Seconds for which a status that only counts more replicas may wait to be written."""
SETTLE_CREATED = 2.0
"""The same for the first status of a job."""
SETTLE_RUNNING = 0.5
"""The same for a job that begins to run, until all of its replicas do."""
OURS = ("", "kubeflow.org/training-operator", "kubeflow.org/mpi-operator")
"""Values of `managedBy` with which a job is ours."""


class Key(Struct, frozen=True):
    """Which job is meant; as a text it is `plural/namespace/name`."""

    plural: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.plural}/{self.namespace}/{self.name}"

    @classmethod
    def of(cls, text: str) -> Key:
        return cls(*text.split("/"))


class _Parsed(Struct, frozen=True):
    generation: int
    annotations: dict[str, str]
    job: Job
    templates: dict[str, dict[str, Any]]


class Unusable(Exception):
    """A job object that no job can be made of; it carries what is wrong."""

    def __init__(self, one: JobObject, error: errors.BadManifest) -> None:
        super().__init__(str(error))
        self.object, self.error = one, error


class ClusterStore:
    def __init__(
        self,
        api: Api,
        jobs: Mapping[str, Scoped[JobObject]],
        teller: Teller,
        clock: Callable[[], float],
        look_at: Callable[[str, float], None],
        recorded: Callable[[Job, Status, Status], None],
    ) -> None:
        self._api, self._jobs, self._teller = api, jobs, teller
        self._clock, self._look_at, self._recorded = clock, look_at, recorded
        self._parsed: dict[str, _Parsed] = {}
        self._late: dict[str, float] = {}
        self._own: dict[str, int] = {}
        """What we wrote last of each job, as a hash."""
        self._doubtful: set[str] = set()
        """Jobs of which a write was refused, or not answered: what we know of them may be old."""

    def find(self, key: str) -> JobObject | None:
        wanted = Key.of(key)
        cache = self._jobs.get(wanted.plural)
        return cache.get(wanted.namespace, wanted.name) if cache is not None else None

    def templates(self, key: str) -> Mapping[str, dict[str, Any]]:
        """The pod template of each role as it was written, by the role's type."""
        one = self.find(key)
        return self._parse(one).templates if one is not None else {}

    def forget(self, key: str, uid: str) -> None:
        self._parsed.pop(uid, None)
        self._late.pop(key, None)
        self._own.pop(uid, None)
        self._doubtful.discard(key)

    async def load(self, key: str) -> Stored | None:
        one = await self._read(key) if key in self._doubtful else self.find(key)
        if one is None or one.metadata.deletionTimestamp is not None:
            return None
        job = self._parse(one).job
        if job.policy.managed_by not in OURS:
            return None
        version = one.metadata.resourceVersion
        return Stored(job, job_status.read(one.status), version, "" if self._is_own(one) else version)

    async def record(self, key: str, before: Stored, decision: Decision) -> None:
        if decision.status.expired:
            await self._delete(key, before)
            return
        if decision.status != before.status and not self._waits(key, before, decision.status):
            await self._write(key, before, decision.status)
            self._recorded(before.job, before.status, decision.status)
        self._teller.tell(before.job, decision.events)

    async def refuse(self, key: str, unusable: Unusable) -> None:
        """Say of a job object that it cannot become a job, once."""
        one = unusable.object
        if job_status.read(one.status).phase is Phase.FAILED:
            return
        now = self._clock()
        job = Job(
            Kind(one.kind), one.apiVersion, one.metadata.name, (), one.metadata.namespace, one.metadata.uid
        )
        message = f"{one.kind} {one.metadata.name} is not valid: {unusable.error.what}"
        reason = f"{one.kind}FailedValidation"
        failed = Condition(ConditionType.FAILED, True, reason, message, now, now)
        await self._write(
            key,
            Stored(job, Status(), one.metadata.resourceVersion),
            Status(conditions=(failed,), completed=now),
        )
        self._teller.tell(job, (Event(EventType.WARNING, reason, message),))

    def _parse(self, one: JobObject) -> _Parsed:
        known = self._parsed.get(one.metadata.uid)
        if (
            known is not None
            and known.generation == one.metadata.generation
            and known.annotations == one.metadata.annotations
        ):
            return known
        try:
            manifest = job_objects.manifest(one)
            (found,) = read.from_manifest(manifest, file=one.metadata.name).jobs
        except errors.BadManifest as error:
            raise Unusable(one, error) from error
        job = replace(found.job, uid=one.metadata.uid)
        parsed = _Parsed(one.metadata.generation, one.metadata.annotations, job, _templates(job, manifest))
        self._parsed[one.metadata.uid] = parsed
        return parsed

    def _waits(self, key: str, before: Stored, after: Status) -> bool:
        """Whether the write can wait for what follows."""
        settle = _settle(before.job, before.status, after)
        now = self._clock()
        due = min(now + settle, self._late.get(key, float("inf")))
        if settle and now < due:
            self._late[key] = due
            self._look_at(key, due)
            return True
        self._late.pop(key, None)
        return False

    async def _write(self, key: str, before: Stored, status: Status) -> None:
        where = self._where(key, "status")
        patch = [
            {"op": "add", "path": "/status", "value": job_status.written(before.job, status, self._clock())}
        ]
        # The version that was read makes a write upon a newer one a conflict.
        meant = Expected(before.job.uid, before.version)
        try:
            written = await self._api.patch(where, patch, JobObject, meant=meant, how="json")
        except ApiError as error:
            self._doubtful.add(key)
            if error.status in (404, 409):
                raise Conflict from error
            raise
        self._own[written.metadata.uid] = hash(bytes(written.status))
        self._jobs[Key.of(key).plural].learn(written)

    async def _read(self, key: str) -> JobObject | None:
        """The job as it is now: nothing is decided on a view that may be older than our own last write."""
        try:
            one = await self._api.get(self._where(key), JobObject)
        except ApiError as error:
            if error.status != 404:
                raise
            return None
        self._jobs[Key.of(key).plural].learn(one)
        self._doubtful.discard(key)
        return self.find(key)

    async def _delete(self, key: str, before: Stored) -> None:
        await self._api.delete(self._where(key), Named, uid=before.job.uid, propagation="Background")

    def _is_own(self, one: JobObject) -> bool:
        """Whether its status is as we wrote it, or none was written yet."""
        status = bytes(one.status)
        return not status or self._own.get(one.metadata.uid) == hash(status)

    def _where(self, key: str, sub: str = "") -> str:
        wanted = Key.of(key)
        return path(version(wanted.plural), wanted.plural, wanted.namespace, wanted.name, sub)


def version(plural: str) -> str:
    """The version in which we read a kind's objects; a kind with several says in each how it was written."""
    kind = next(one for one in Kind if job_objects.plural(one) == plural)
    return kinds.module(kind).API_VERSIONS[0]


def _settle(job: Job, before: Status, after: Status) -> float:
    """How many seconds a change may wait to be written; 0 where it must not."""
    grown = replace(
        before,
        replicas=after.replicas,
        done=after.done,
        sightings=after.sightings,
        started=after.started,
        conditions=after.conditions,
    )
    # A replica that leaves by our own wish must be known to before it is stopped, or it counts as lost.
    told = any(known.losses or known.closed for known in after.sightings.values())
    if grown != after or told:
        return 0.0
    if before.conditions == after.conditions:
        return SETTLE
    match [one.type for one in after.conditions[len(before.conditions) :]]:
        case [ConditionType.CREATED]:
            return SETTLE_CREATED
        case [*_, ConditionType.RUNNING]:
            active = sum(one.active for one in after.replicas.values())
            return SETTLE_RUNNING if active < sum(role.replicas for role in job.roles) else 0.0
    return 0.0


def _templates(job: Job, manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    specs = manifest["spec"][kinds.module(job.kind).SPECS]
    by_name = {str(type).lower(): spec.get("template") or {} for type, spec in specs.items()}
    return {role.type: by_name[role.name] for role in job.roles}
