"""Knows which objects of a resource are there now: a cache kept current by list and watch.

What is known of an object never becomes older: versions are compared, and what was deleted does not come
back. Only a change wakes the caller: a stale list, a repeated event or the echo of an own write does not.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Generic, Protocol, TypeVar

from bireme.backends.kubernetes.client.api import Api, ApiError
from bireme.backends.kubernetes.client.decoding import Bookmark
from bireme.backends.kubernetes.client.error_hints import explained
from bireme.backends.kubernetes.client.paths import path
from bireme.errors import BiremeError

log = logging.getLogger(__name__)

WATCH_SECONDS = 300
"""A watch lasts between this and twice this, so that watches do not all end together."""
FIRST_WAIT = 0.1
LONGEST_WAIT = 30.0
REFUSED_WAIT = 10.0
"""At most between two tries of a resource that is not served, or that we may not see."""
REFUSED = frozenset({401, 403, 404})
MOST_GONE = 20_000
FOR_GOOD = sys.maxsize


class HasMeta(Protocol):
    """What the cache reads of an object's metadata."""

    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resourceVersion(self) -> str: ...


class Kept(Protocol):
    """What can be kept in a cache."""

    @property
    def metadata(self) -> HasMeta: ...


T = TypeVar("T", bound=Kept)
Key = tuple[str, str]


class Cache(Generic[T]):
    """The objects of one resource by namespace and name.

    `changed` is called with what was known and what is known now, each None if there is nothing; own writes
    (`learn`, `forget`) included, because their answers may hold the changes of others as well.
    """

    def __init__(
        self,
        api: Api,
        path: str,
        type: type[T],
        changed: Callable[[T | None, T | None], None],
        *,
        labels: str = "",
        fields: str = "",
    ) -> None:
        self._api = api
        self._path = path
        self._type = type
        self._changed = changed
        self._selectors = {"labelSelector": labels, "fieldSelector": fields}
        self._objects: dict[Key, T] = {}
        self.objects: Mapping[Key, T] = MappingProxyType(self._objects)
        self._gone: dict[str, int] = {}
        """The uid of what was deleted, and the version below which nothing about it is believed."""
        self._version = ""
        self._listed = False
        self._news = asyncio.Event()
        self.trouble: ApiError | BiremeError | None = None
        """Why the cache may be out of date, or None."""

    async def run(self) -> None:
        """Lists and watches until it is cancelled."""
        failures = 0
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            try:
                if not self._version:
                    await self._list()
                    failures = 0
                heard = await self._follow()
                if heard or clock() - began > 1.0:
                    failures = 0
                    continue
            except (ApiError, BiremeError) as error:  # the latter of a login that failed
                if isinstance(error, ApiError) and error.status == 410:
                    # The server no longer knows what happened since our version: list anew.
                    self._version = ""
                else:
                    self.trouble = error
                    self._news.set()
                    if failures in (0, 5) or failures % 100 == 0:
                        log.warning(
                            "Watching fails and is tried again: %s", error, extra={"path": self._path}
                        )
            failures += 1
            if self.trouble is not None and _refused(self.trouble):
                # Soon at first: a kind that is just being installed is served within a second.
                wait = min(REFUSED_WAIT, 0.25 * 2.0 ** min(failures, 20))
            else:
                wait = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(failures, 20))
                wait *= 0.5 + self._api.access.chance.random() / 2
            await asyncio.sleep(wait)

    async def synced(self) -> None:
        """Waits until the objects have been listed once.

        Raises the explained error while the server does not serve the resource, or does not let us see it. It
        is looked for again every ten seconds all the same: a caller that expects a change may wait once more.
        """
        while not self._listed:
            if self.trouble is not None and _refused(self.trouble):
                raise explained(self.trouble)
            self._news.clear()
            await self._news.wait()

    def is_at(self, version: str) -> bool:
        """Whether everything is known that happened up to a version."""
        return _number(self._version) >= _number(version)

    def learn(self, item: T) -> None:
        """Takes in the answer to our own write, so that nothing is decided on an older view."""
        self._put(item)

    def forget(self, item: T) -> None:
        """Takes in that our own delete took effect at once: later news of that uid is not believed."""
        self._bury(item.metadata.uid, FOR_GOOD)
        self._remove(item, FOR_GOOD)

    async def _list(self) -> None:
        # Without a version, which asks for what is true now. What a server has at hand (version 0) may be
        # older than what others know already: than a status, for example, that tells of objects it lacks.
        listing = await self._api.listing(self._path, self._type, **self._selectors)
        seen = set()
        for item in listing.items:
            seen.add(_key(item))
            self._put(item)
        at = _number(listing.version)
        for key in [key for key in self._objects if key not in seen]:
            # What is newer than the list was learned while it was on its way.
            self._remove(self._objects[key], at)
        self._version = listing.version
        self._listed = True
        self._well()

    async def _follow(self) -> int:
        """Watches until the server ends it, and says how often something was heard."""
        heard = 0
        events = self._api.events(
            self._path,
            self._type,
            resourceVersion=self._version,
            allowWatchBookmarks="true",
            timeoutSeconds=str(int(WATCH_SECONDS * (1 + self._api.access.chance.random()))),
            **self._selectors,
        )
        async for event in events:
            heard += 1
            if self.trouble is not None:
                self._well()
            if isinstance(event, Bookmark):
                self._version = event.version
                continue
            item = event.object
            if event.type == "DELETED":
                version = _number(item.metadata.resourceVersion)
                self._bury(item.metadata.uid, version)
                self._remove(item, version)
            else:
                self._put(item)
            self._version = item.metadata.resourceVersion
        return heard

    def _put(self, item: T) -> None:
        version = _number(item.metadata.resourceVersion)
        if version <= self._gone.get(item.metadata.uid, -1):
            return
        key = _key(item)
        known = self._objects.get(key)
        if known is not None:
            # True of another uid as well: it is then the predecessor of the one we know.
            if version <= _number(known.metadata.resourceVersion):
                return
            if known.metadata.uid != item.metadata.uid:
                self._bury(known.metadata.uid, version)
                self._remove(known, version)
                known = None
        self._objects[key] = item
        self._changed(known, item)

    def _remove(self, item: T, version: int) -> None:
        """Removes the object if it is still the one meant, and no newer than its end.

        It can be newer: labels that left the selector and came back are a deletion for the watch alone.
        """
        known = self._objects.get(_key(item))
        if known is None or known.metadata.uid != item.metadata.uid:
            return
        if _number(known.metadata.resourceVersion) <= version:
            self._bury(item.metadata.uid, version)
            del self._objects[_key(item)]
            self._changed(known, None)

    def _bury(self, uid: str, version: int) -> None:
        self._gone[uid] = max(version, self._gone.pop(uid, -1))
        if len(self._gone) > MOST_GONE:
            # The oldest half: long past every event or answer that could still be on its way.
            for old in list(self._gone)[: MOST_GONE // 2]:
                del self._gone[old]

    def _well(self) -> None:
        self.trouble = None
        self._news.set()


def _refused(trouble: ApiError | BiremeError) -> bool:
    return isinstance(trouble, BiremeError) or trouble.status in REFUSED


def _key(item: Kept) -> Key:
    return item.metadata.namespace, item.metadata.name


def _number(version: str) -> int:
    """The versions of one server are comparable as integers; one that is no number counts as the oldest."""
    return int(version) if version.isdecimal() else 0


class Scoped(Generic[T]):
    """The objects of a resource in some namespaces; no name means all of them."""

    def __init__(
        self,
        api: Api,
        resource: tuple[str, str],
        type: type[T],
        changed: Callable[[T | None, T | None], None],
        namespaces: Sequence[str] = (),
        labels: str = "",
    ) -> None:
        self._caches = {
            namespace: Cache(api, path(*resource, namespace), type, changed, labels=labels)
            for namespace in namespaces or ("",)
        }

    def get(self, namespace: str, name: str) -> T | None:
        cache = self._cache(namespace)
        return cache.objects.get((namespace, name)) if cache is not None else None

    def is_at(self, namespace: str, version: str) -> bool:
        """Whether everything is known that happened up to a version."""
        cache = self._cache(namespace)
        return cache is not None and cache.is_at(version)

    def learn(self, item: T) -> None:
        cache = self._cache(item.metadata.namespace)
        if cache is not None:
            cache.learn(item)

    def forget(self, item: T) -> None:
        cache = self._cache(item.metadata.namespace)
        if cache is not None:
            cache.forget(item)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for cache in self._caches.values():
                tasks.create_task(cache.run())

    async def synced(self) -> None:
        for cache in self._caches.values():
            await cache.synced()

    def _cache(self, namespace: str) -> Cache[T] | None:
        return self._caches.get("") or self._caches.get(namespace)
