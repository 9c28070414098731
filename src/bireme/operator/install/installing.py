"""Installs the definitions and the operator in a cluster, and removes them.

Everything is applied on the server's side, so that what others set on the same objects stays theirs. Where
another operator serves the same kinds, or another manager has set the same field otherwise, a sentence says
so and nothing is changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from bireme import errors, kinds
from bireme.backends.kubernetes import rollouts
from bireme.backends.kubernetes.client.api import Api, ApiError, ByName, Expected
from bireme.backends.kubernetes.client.paths import path
from bireme.backends.kubernetes.rollouts import Standing
from bireme.kinds.contract import GROUP
from bireme.operator.install import conflicts, crds, operator_objects
from bireme.operator.install.operator_objects import Object, OperatorSettings

MANAGER = "bireme"
PATIENCE = 60.0
"""Seconds for a definition to be served, or to be gone with all its jobs."""
_LOOK_AGAIN = 0.2
_REMINDER = "bireme.io/uninstalled-at-version"

_PLURALS = {
    "CustomResourceDefinition": "customresourcedefinitions",
    "Namespace": "namespaces",
    "ServiceAccount": "serviceaccounts",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "NetworkPolicy": "networkpolicies",
    "Deployment": "deployments",
    "Service": "services",
}
# What the server itself writes into every object.
_WRITTEN_BY_SERVER = ("managedFields", "resourceVersion", "generation", "creationTimestamp", "uid")


class Outcome(StrEnum):
    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    DELETED = "deleted"
    ABSENT = "absent"
    KEPT = "kept"
    """It was left alone: it is not ours, or an earlier installation made it and this one was not asked to."""


class Done(Struct, frozen=True):
    """What became of one object."""

    kind: str
    name: str
    namespace: str
    outcome: Outcome


class InstallView(Struct, frozen=True):
    """What `bireme install --json` and `bireme uninstall --json` print."""

    objects: tuple[Done, ...]
    dry_run: bool = False
    operator: Standing | None = None
    """How the operator fares; None where that was not waited for."""
    version: int = 1


class InstallRequest(Struct, frozen=True):
    """How to install."""

    settings: OperatorSettings = OperatorSettings()
    crds_only: bool = False
    adopt: bool = False
    """Take over definitions, and fields, that others have set."""
    dry_run: bool = False


async def install(api: Api, wish: InstallRequest) -> AsyncIterator[Done]:
    """Applies everything, one object after the other.

    Where another operator serves the kinds, or one of the objects was not made by Bireme, it refuses before
    the first. A single field that another manager set is found when its object has its turn.
    """
    found = await _definitions(api)
    await conflicts.refuse(api, wish.settings.namespace)
    objects: list[Object] = []
    if not wish.crds_only:
        wish = replace(wish, settings=await _with_image(api, wish.settings))
        parts = (operator_objects.rights, operator_objects.network, operator_objects.workload)
        objects = [object for part in parts for object in part(wish.settings)]
    if not wish.adopt:
        conflicts.refuse_foreign(found)
        for item in objects:
            _refuse_foreign(item, await _get(api, item))
    for definition in crds.every(_storage(found)):
        yield await _apply(api, definition, wish)
    if not wish.dry_run:
        await _until_served(api)
    if wish.crds_only:
        return
    home = operator_objects.namespace(wish.settings)
    there = await _get(api, home)
    if there is None or conflicts.is_ours(there):
        yield await _apply(api, home, wish)
    for item in objects:
        if there is None and wish.dry_run and _namespace(item):
            # A server that only tries has not made the namespace either, and would miss it.
            yield _done(item, Outcome.CREATED)
        else:
            yield await _apply(api, item, wish)
    # What an earlier installation made that this one was not asked for: it stays, and is told.
    wanted = [_path(item) for item in objects]
    for item in operator_objects.network(replace(wish.settings, network_policy=True)):
        left = await _get(api, item) if _path(item) not in wanted else None
        if left is not None and conflicts.is_ours(left):
            yield _done(item, Outcome.KEPT)


async def _with_image(api: Api, settings: OperatorSettings) -> OperatorSettings:
    """Without a choice the operator keeps its image. A first one has to be named: none is published."""
    if settings.image:
        return settings
    there = await _get(api, operator_objects.workload(settings)[0])
    match there:
        case {"spec": {"template": {"spec": {"containers": [{"image": str(image)}, *_]}}}}:
            return replace(settings, image=image)
    raise errors.BadInput(
        "no image of the operator is published yet: name one with --image",
        hint="\n".join(rollouts.building(namespace=settings.namespace)),
    )


async def jobs(api: Api) -> list[str]:
    """Every job that would go with our definitions, as `tfjob mnist (namespace default)`."""
    found = await _definitions(api)
    names = []
    for kind in (kind for kind, definition in found.items() if conflicts.is_ours(definition)):
        there = await api.get(path(f"{GROUP}/{crds.STORAGE}", kinds.named(kind).plural))
        listed = there.get("items", [])
        names += [f"{kind.lower()} {_name(item)} (namespace {_namespace(item)})" for item in listed]
    return names


async def uninstall(api: Api, settings: OperatorSettings, *, keep_crds: bool = False) -> AsyncIterator[Done]:
    """Deletes what was installed, the operator first; what is not ours is kept."""
    every = replace(settings, network_policy=True)  # The installation may have asked for it.
    parts = (
        operator_objects.workload(every),
        operator_objects.network(every),
        operator_objects.rights(every),
    )
    for item in (item for part in parts for item in reversed(part)):
        yield await _delete(api, item)
    for definition in [] if keep_crds else crds.every():
        yield await _delete(api, definition)
    yield await _delete(api, operator_objects.namespace(settings))
    if keep_crds:
        return
    seen: dict[str, str] = {}

    async def left() -> list[str]:
        found = await _definitions(api)
        ours = {kind: there for kind, there in found.items() if conflicts.is_ours(there)}
        for kind, there in ours.items():
            version = _metadata(there, "resourceVersion")
            # The server failed to clean up after it, and may not try again by itself.
            is_forgotten = _has_condition(there, reason="InstanceDeletionFailed")
            if is_forgotten and seen.get(kind) == version:
                await _remind(api, there, version)
            seen[kind] = version
        return [crds.definition_name(kind) for kind in ours]

    await _until_none(left, "not gone yet")


# --- One object -------------------------------------------------------------------------------------------


async def _apply(api: Api, wanted: Object, wish: InstallRequest) -> Done:
    before = await _get(api, wanted)
    if not wish.adopt:
        _refuse_foreign(wanted, before)
    meant = Expected(_metadata(before, "uid")) if before is not None else ByName.INSTALLS
    query = {"fieldManager": MANAGER} | ({"force": "true"} if wish.adopt else {})
    if wish.dry_run:
        query["dryRun"] = "All"
    try:
        after: Object = await api.patch(_path(wanted), wanted, meant=meant, how="apply", **query)
    except ApiError as error:
        if error.status != 409:
            raise
        raise errors.BadInput(
            f"another manager has set fields of {wanted['kind']} {_name(wanted)}: {error.message}",
            hint="to take them over: bireme install --adopt",
        ) from error
    if before is None:
        return _done(wanted, Outcome.CREATED)
    same = _essence(before) == _essence(after)
    return _done(wanted, Outcome.UNCHANGED if same else Outcome.CHANGED)


def _refuse_foreign(wanted: Object, there: Object | None) -> None:
    if there is not None and not conflicts.is_ours(there):
        raise errors.BadInput(
            f"{wanted['kind']} {_name(wanted)} exists and is not managed by Bireme",
            hint="delete it, or take it over: bireme install --adopt",
        )


async def _delete(api: Api, item: Object) -> Done:
    there = await _get(api, item)
    if there is None:
        return _done(item, Outcome.ABSENT)
    if not conflicts.is_ours(there):
        return _done(item, Outcome.KEPT)
    gone = await api.delete(_path(item), uid=_metadata(there, "uid"))
    return _done(item, Outcome.ABSENT if gone is None else Outcome.DELETED)


async def _get(api: Api, item: Object) -> Object | None:
    try:
        found: Object = await api.get(_path(item))
    except ApiError as error:
        if error.status != 404:
            raise
        return None
    return found


def _essence(item: Object) -> Object:
    """The object without what the server adds, so that two of them can be compared."""
    metadata = item["metadata"]
    assert isinstance(metadata, dict)
    kept = {name: value for name, value in metadata.items() if name not in _WRITTEN_BY_SERVER}
    return {**{name: value for name, value in item.items() if name != "status"}, "metadata": kept}


def _path(item: Object) -> str:
    return path(str(item["apiVersion"]), _PLURALS[str(item["kind"])], _namespace(item), _name(item))


def _done(item: Object, outcome: Outcome) -> Done:
    return Done(str(item["kind"]), _name(item), _namespace(item), outcome)


def _name(item: Object) -> str:
    return _metadata(item, "name")


def _namespace(item: Object) -> str:
    return _metadata(item, "namespace")


def _metadata(item: Object, field: str) -> str:
    metadata = item["metadata"]
    assert isinstance(metadata, dict)
    return str(metadata.get(field, ""))


# --- Definitions ------------------------------------------------------------------------------------------


async def _definitions(api: Api) -> dict[str, Object]:
    """The definitions of our kinds that are in the cluster, made by Bireme or not."""
    found = {kind: await _get(api, crds.definition(kind)) for kind in kinds.SERVED}
    return {kind: definition for kind, definition in found.items() if definition is not None}


def _storage(found: dict[str, Object]) -> str:
    """The version in which a kind of several is stored: the one that is in use, else our own choice."""
    for kind, definition in found.items():
        match definition:
            case {"spec": {"versions": [*versions]}} if len(crds.versions(kind)) > 1:
                stored = [version["name"] for version in versions if version.get("storage")]
                return next((name for name in stored if name in crds.versions(kind)), crds.STORAGE)
    return crds.STORAGE


async def _until_served(api: Api) -> None:
    async def served() -> list[str]:
        found = await _definitions(api)
        return [
            crds.definition_name(kind)
            for kind in kinds.SERVED
            if not _has_condition(found.get(kind), type="Established", status="True")
        ]

    await _until_none(served, "not served yet")


async def _remind(api: Api, definition: Object, version: str) -> None:
    """Changes the definition a little, so that the server looks at it again.

    When its clean-up fails, as it does while the storage of the kind is only just there, the server tries
    again at once; where that meets its own last write, it takes the matter for done, and ignores the news of
    that write, because only `Terminating` differs. Until anything else is changed, nothing happens.
    """
    try:
        change = {"metadata": {"annotations": {_REMINDER: version}}}
        await api.patch(_path(definition), change, meant=Expected(_metadata(definition, "uid"), version))
    except ApiError as error:
        if error.status not in (404, 409):  # It went, or the server has looked at it since.
            raise


async def _until_none(look: Callable[[], Awaitable[list[str]]], words: str) -> None:
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while missing := await look():
        if asyncio.get_running_loop().time() > deadline:
            what = f"after {PATIENCE:.0f} s these definitions are {words}: {', '.join(missing)}"
            raise errors.Unreachable(what, hint="the same command can be run again")
        await asyncio.sleep(_LOOK_AGAIN)


def _has_condition(definition: Object | None, **wanted: str) -> bool:
    """Whether the status has a condition with all of these fields."""
    match definition:
        case {"status": {"conditions": [*conditions]}}:
            return any(wanted.items() <= condition.items() for condition in conditions)
    return False
