"""Where are the objects of one resource: in one cache for a whole cluster, or in one for each namespace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from bireme.backends.kubernetes.client.api import Api
from bireme.backends.kubernetes.client.informer import Cache
from bireme.backends.kubernetes.client.paths import path
from bireme.backends.kubernetes.objects.api_types import Meta


class Described(Protocol):
    @property
    def metadata(self) -> Meta: ...


T = TypeVar("T", bound=Described)


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
            one: Cache(api, path(*resource, one), type, changed, labels=labels) for one in namespaces or ("",)
        }

    def get(self, namespace: str, name: str) -> T | None:
        cache = self._cache(namespace)
        return cache.objects.get((namespace, name)) if cache is not None else None

    def is_at(self, namespace: str, version: str) -> bool:
        """Whether everything is known that happened up to a version."""
        cache = self._cache(namespace)
        return cache is not None and cache.is_at(version)

    def learn(self, one: T) -> None:
        cache = self._cache(one.metadata.namespace)
        if cache is not None:
            cache.learn(one)

    def forget(self, one: T) -> None:
        cache = self._cache(one.metadata.namespace)
        if cache is not None:
            cache.forget(one)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for cache in self._caches.values():
                tasks.create_task(cache.run())

    async def synced(self) -> None:
        for cache in self._caches.values():
            await cache.synced()

    def _cache(self, namespace: str) -> Cache[T] | None:
        return self._caches.get("") or self._caches.get(namespace)
