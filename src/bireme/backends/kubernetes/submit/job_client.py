"""Finds, starts and changes the jobs of a cluster: each as one or a few requests."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bireme import kinds
from bireme.backends.kubernetes.client.api import Api, ApiError, ByName, Expected
from bireme.backends.kubernetes.client.api_errors import DISCONNECTED
from bireme.backends.kubernetes.client.paths import path
from bireme.backends.kubernetes.objects import job_objects
from bireme.backends.kubernetes.objects.api_types import Meta, Pod
from bireme.backends.kubernetes.objects.job_objects import JobObject
from bireme.backends.kubernetes.submit import code_maps
from bireme.backends.kubernetes.submit.code_maps import MANAGED
from bireme.model.job import RESUMES_ANNOTATION

Object = dict[str, Any]  # Any: JSON has no better type

_VERSIONS = tuple(
    dict.fromkeys(version for name in kinds.SERVED for version in kinds.named(name).api_versions)
)
"""Of the group, the one that is asked first at the front."""
LOOK_SECONDS = 5.0
"""For the look at whether a request was carried out whose answer was lost."""
_MOST_NAMES = 5
"""That are tried for a ConfigMap."""


_NATIVE = tuple(kind.name for kind in kinds.KINDS if kind.native)


class Served(Struct, frozen=True):
    """Which kinds the API server knows, and in which versions."""

    versions: dict[str, tuple[str, ...]]

    @property
    def is_ours(self) -> bool:
        """Whether the definitions are Bireme's: no other serves all versions of a kind with several."""
        several = [kind for kind in kinds.KINDS if len(kind.api_versions) > 1]
        return any(len(self.versions.get(kind.name, ())) == len(kind.api_versions) for kind in several)

    def version(self, kind: str) -> str:
        """The version in which jobs of a kind are read; empty if it is not served."""
        native = kinds.named(kind).native
        return kinds.named(kind).api_versions[0] if native else next(iter(self.versions.get(kind, ())), "")


class EventSeries(Struct, frozen=True):
    count: int = 0
    lastObservedTime: str | None = None


class EventObject(Struct, frozen=True):
    """Something that happened, as the cluster tells it."""

    metadata: Meta = Meta()
    type: str | None = ""
    reason: str | None = ""
    message: str | None = ""
    count: int | None = 1
    firstTimestamp: str | None = None
    lastTimestamp: str | None = None
    eventTime: str | None = None
    series: EventSeries | None = None


class _ApiResource(Struct):
    name: str
    kind: str
    namespaced: bool = True


class _ApiResources(Struct):
    resources: list[_ApiResource] = []


async def served(api: Api) -> Served:
    """Asks which kinds there are; every user may."""
    lists = await asyncio.gather(*(_resources(api, version) for version in _VERSIONS))
    found: dict[str, tuple[str, ...]] = {}
    for version, resources in zip(_VERSIONS, lists, strict=True):
        names = {resource.name for resource in resources}
        for kind in kinds.SERVED:
            if kinds.named(kind).plural in names:
                found[kind] = (*found.get(kind, ()), version)
    return Served(found)


async def serves(api: Api, version: str, resource: str) -> bool:
    """Whether the API server knows a resource."""
    return any(known.name == resource for known in await _resources(api, version))


# Looking


async def listed(api: Api, known: Served, namespace: str) -> list[JobObject]:
    """The jobs of a namespace; of batch Jobs, which have many other uses, only those started by Bireme."""
    ours = job_objects.selector(MANAGED)
    found = await asyncio.gather(
        *(_listed(api, kind, known.version(kind), namespace) for kind in known.versions),
        *(_listed(api, kind, known.version(kind), namespace, labelSelector=ours) for kind in _NATIVE),
    )
    return [job for each in found for job in each]


async def named(api: Api, known: Served, namespace: str, name: str, kind: str = "") -> list[JobObject]:
    """The jobs of a name: one at most of each kind."""
    wanted = [
        candidate
        for candidate in (*known.versions, *_NATIVE)
        if kind in ("", candidate.lower(), kinds.named(candidate).plural)
    ]
    found = await asyncio.gather(
        *(_one(api, candidate, known.version(candidate), namespace, name) for candidate in wanted)
    )
    return [job for job in found if job is not None]


async def again(api: Api, job: JobObject) -> JobObject | None:
    """The same job as it is now; None if it is gone, or another one has its name."""
    now = await _one(api, job.kind, job.apiVersion, job.metadata.namespace, job.metadata.name)
    return now if now is not None and now.metadata.uid == job.metadata.uid else None


async def pods(api: Api, job: JobObject) -> tuple[Pod, ...]:
    """The pods of a job, without those of another job that had its name."""
    where = path("v1", "pods", job.metadata.namespace)
    found = await api.listing(where, Pod, labelSelector=pod_selector(job))
    return tuple(pod for pod in found.items if belongs(pod, job))


def pod_selector(job: JobObject) -> str:
    """By which labels the pods of a job are found, whichever operator made them."""
    return f"{kinds.named(job.kind).job_label}={job.metadata.name}"


def belongs(pod: Pod, job: JobObject) -> bool:
    """Whether a pod that carries a job's name is that job's."""
    owner = pod.metadata.controller
    if owner is None:
        return False
    # Kubeflow's MPI operator starts a launcher through a batch Job of its own.
    return owner.uid == job.metadata.uid or (owner.kind in _NATIVE and job.kind not in _NATIVE)


async def events(api: Api, job: JobObject) -> tuple[EventObject, ...]:
    """What was told about a job; nothing where the user may not read events."""
    where = path("v1", "events", job.metadata.namespace)
    try:
        selector = f"involvedObject.uid={job.metadata.uid}"
        return (await api.listing(where, EventObject, fieldSelector=selector)).items
    except ApiError as error:
        if error.status != 403:
            raise
        return ()


# Changing


async def create(api: Api, body: Object, *, dry_run: bool = False) -> JobObject:
    """Creates a job, or lets the API server say what it thinks of it."""
    kind, metadata = str(body["kind"]), body["metadata"]
    query = {"dryRun": "All"} if dry_run else {}
    where = path(body["apiVersion"], kinds.named(kind).plural, metadata["namespace"])
    try:
        made = await api.create(where, body, JobObject, fieldValidation="Strict", **query)
    except ApiError as error:
        own = None if dry_run else await _own_after(api, error, body)
        if own is None:
            raise
        made = own
    return replace(made, apiVersion=body["apiVersion"], kind=kind)


async def _own_after(api: Api, error: ApiError, body: Object) -> JobObject | None:
    """The job that a request created although it seems to have failed: its answer was lost.

    Raises ApiError, undecided, where the look fails: a job that may be there needs the code that was sent.
    """
    token = submission(body)
    # What the server refused for another reason was not created.
    if not token or not (error.status == 409 or is_undecided(error)):
        return None
    meta = body["metadata"]
    where = path(body["apiVersion"], kinds.named(body["kind"]).plural, meta["namespace"], meta["name"])
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            found = await api.get(where, JobObject)
    except (ApiError, TimeoutError) as failed:
        if isinstance(failed, ApiError) and failed.status == 404:
            return None
        text = f"whether the job was created cannot be told: {str(failed) or 'the look took too long'}"
        raise ApiError(0, DISCONNECTED, text, source=error.source) from failed
    return found if found.metadata.annotations.get(job_objects.SUBMISSION) == token else None


def submission(body: Object) -> str:
    """The token of the submission that an object belongs to; empty if it has none."""
    return str((body["metadata"].get("annotations") or {}).get(job_objects.SUBMISSION) or "")


def is_undecided(error: ApiError) -> bool:
    """Whether a request that failed may have been carried out, or may still be."""
    return error.status == 0 or error.status >= 500


async def apply(api: Api, body: Object, namespace: str, *, dry_run: bool = False) -> str:
    """Applies an object that stands beside a job, and returns what it is: `ConfigMap settings`.

    One without a namespace goes where the job goes.
    """
    known = await _resources(api, body["apiVersion"])
    resource = next(
        (resource for resource in known if resource.kind == body["kind"] and "/" not in resource.name), None
    )
    if resource is None:
        raise ApiError(404, "NotFound", f"the cluster knows no {body['kind']} in {body['apiVersion']}")
    name = body["metadata"]["name"]
    there = (body["metadata"].get("namespace") or namespace) if resource.namespaced else ""
    if there:
        body = {**body, "metadata": {**body["metadata"], "namespace": there}}
    where = path(body["apiVersion"], resource.name, there, name)
    query = {"dryRun": "All"} if dry_run else {}
    await api.patch(where, body, meant=ByName.USERS_MANIFEST, how="apply", force="true", **query)
    return f"{body['kind']} {name}"


async def suspend(api: Api, job: JobObject, wish: bool) -> None:
    """Puts a job aside, or lets it go on."""
    change = {"runPolicy": {"suspend": wish}} if kinds.named(job.kind).specs else {"suspend": wish}
    await api.patch(_path(job), {"spec": change}, JobObject, meant=Expected(job.metadata.uid))


async def resume(api: Api, job: JobObject, times: int) -> None:
    """Lets a job that failed go on: its operator does so when the number grows."""
    change = {
        "metadata": {"annotations": {RESUMES_ANNOTATION: str(times)}},
        "spec": {"runPolicy": {"suspend": False}},
    }
    await api.patch(_path(job), change, JobObject, meant=Expected(job.metadata.uid))


async def scale(api: Api, job: JobObject, replicas: Mapping[str, int], gone: Collection[str] = ()) -> None:
    """Changes how many replicas roles have, and takes roles away; they are named as in labels."""
    change = {"spec": scaled(job, replicas, gone)}
    await api.patch(_path(job), change, JobObject, meant=Expected(job.metadata.uid))


async def delete(api: Api, job: JobObject) -> None:
    """Asks for a job and everything that belongs to it to be removed."""
    await api.delete(_path(job), uid=job.metadata.uid, propagation="Foreground")


async def send_maps(api: Api, namespace: str, maps: Iterable[Object], token: str) -> tuple[Object, ...]:
    """Creates ConfigMaps and returns them under the names that they have there.

    One that is there already is used if it is the same; otherwise it was made elsewhere, and ours gets
    another name.
    """
    return tuple(await asyncio.gather(*(_send_map(api, namespace, config_map, token) for config_map in maps)))


async def own_maps(api: Api, job: JobObject, maps: Iterable[Object]) -> None:
    """Lets ConfigMaps go with the last of the jobs that use them."""
    owner = {
        "apiVersion": job.apiVersion,
        "kind": job.kind,
        "name": job.metadata.name,
        "uid": job.metadata.uid,
    }
    for each in maps:
        try:
            await _own_map(api, each, owner)
        except ApiError as error:
            if error.status not in (404, 409):
                raise
            # It went with the last job that used it, a moment ago. Its name stands in the job by now; were
            # it taken again by something else, the replicas would refuse to run that.
            await _create_map(api, each)
            await _own_map(api, each, owner)


async def _own_map(api: Api, config_map: Object, owner: Object) -> None:
    """Lets a ConfigMap go with the job; another that has been put in its place is left alone."""
    where = path("v1", "configmaps", config_map["metadata"]["namespace"], config_map["metadata"]["name"])
    found = await api.get(where)
    if code_maps.is_same_map(found, config_map):
        change = {"metadata": {"ownerReferences": [owner]}}
        await api.patch(where, change, meant=Expected(found["metadata"]["uid"]), how="strategic")


async def drop_maps(api: Api, maps: Iterable[Object]) -> None:
    """Removes the ConfigMaps that this submission created, where no job came to use them."""
    for config_map in maps:
        where = path("v1", "configmaps", config_map["metadata"]["namespace"], config_map["metadata"]["name"])
        try:
            found = await api.get(where)
        except ApiError as error:
            if error.status != 404:
                raise
            continue
        if submission(found) == submission(config_map) and not found["metadata"].get("ownerReferences"):
            await api.delete(where, uid=found["metadata"]["uid"])


async def _send_map(api: Api, namespace: str, config_map: Object, token: str) -> Object:
    meta = config_map["metadata"]
    annotations = {**(meta.get("annotations") or {}), job_objects.SUBMISSION: token}
    body = {**config_map, "metadata": {**meta, "namespace": namespace, "annotations": annotations}}
    for _ in range(_MOST_NAMES):
        if await _create_map(api, body):
            return body
        try:
            found = await api.get(path("v1", "configmaps", namespace, body["metadata"]["name"]))
        except ApiError as error:
            if error.status != 404:
                raise
            continue  # it went a moment ago
        if code_maps.is_same_map(found, body):
            return body
        name = f"{meta['name']}-{api.access.chance.randbytes(4).hex()}"
        body = {**body, "metadata": {**body["metadata"], "name": name}}
    raise ApiError(
        409, "AlreadyExists", f"the ConfigMap {meta['name']} cannot be created: others are in its place"
    )


async def _create_map(api: Api, body: Object) -> bool:
    """Creates a ConfigMap, and says whether its name was free."""
    try:
        await api.create(path("v1", "configmaps", body["metadata"]["namespace"]), body)
    except ApiError as error:
        if not error.name_is_taken:
            raise
        return False
    return True


def scaled(job: JobObject, replicas: Mapping[str, int], gone: Collection[str] = ()) -> Object:
    """The change of a job's spec for other numbers of replicas."""
    return kinds.named(job.kind).scaled(msgspec.json.decode(job.spec), replicas, gone)


async def _listed(api: Api, kind: str, version: str, namespace: str, **query: str) -> tuple[JobObject, ...]:
    try:
        found = await api.listing(path(version, kinds.named(kind).plural, namespace), JobObject, **query)
    except ApiError as error:
        if error.status == 403 and kind in _NATIVE:
            return ()
        if error.status == 404:
            return ()
        raise
    return tuple(replace(job, apiVersion=version, kind=kind) for job in found.items)


async def _one(api: Api, kind: str, version: str, namespace: str, name: str) -> JobObject | None:
    try:
        found = await api.get(path(version, kinds.named(kind).plural, namespace, name), JobObject)
    except ApiError as error:
        if error.status == 404 or (error.status == 403 and kind in _NATIVE):
            return None
        raise
    return replace(found, apiVersion=version, kind=kind)


async def _resources(api: Api, version: str) -> list[_ApiResource]:
    where = f"/apis/{version}" if "/" in version else f"/api/{version}"
    try:
        return (await api.get(where, _ApiResources)).resources
    except ApiError as error:
        if error.status != 404:
            raise
        return []


def _path(job: JobObject, sub: str = "") -> str:
    meta = job.metadata
    return path(job.apiVersion, kinds.named(job.kind).plural, meta.namespace, meta.name, sub)
