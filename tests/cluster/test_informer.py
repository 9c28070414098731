"""Does a cache stay true to a real API server, over lines that break?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from bireme.backends.kubernetes.client.api import Api, ApiError, Expected
from bireme.backends.kubernetes.client.informer import Cache
from bireme.backends.kubernetes.client.paths import path
from bireme.errors import BadInput
from tests.cluster.client_fixtures import MINE, Settings, at_port, crd, line, remove, told, working

Told = list[tuple[Settings | None, Settings | None]]


@asynccontextmanager
async def caching(api: Api, where: str, labels: str = MINE) -> AsyncIterator[tuple[Cache[Settings], Told]]:
    """Runs a cache of a resource, and keeps what it told."""
    news: Told = []
    cache = Cache(api, where, Settings, lambda old, new: news.append((old, new)), labels=labels)
    running = asyncio.ensure_future(cache.run())
    try:
        yield cache, news
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def names(cache: Cache[Settings]) -> set[str]:
    return {name for _, name in cache.objects}


def test_the_changes_of_others_are_told_in_order(kubeconfig: Path) -> None:
    async def story(api: Api, where: str) -> None:
        maps, one = path("v1", "configmaps", where), path("v1", "configmaps", where, "a")
        await api.create(maps, told("before"))
        async with caching(api, maps) as (cache, news):
            await cache.synced()
            assert names(cache) == {"before"}
            made = await api.create(maps, told("a", step="1"), Settings)
            await api.patch(one, {"data": {"step": "2"}}, meant=Expected(made.metadata.uid))
            await api.delete(one, uid=made.metadata.uid)
            await until(lambda: len(news) == 4)

        steps = [(old and old.data.get("step"), new and new.data.get("step")) for old, new in news[1:]]
        assert steps == [(None, "1"), ("1", "2"), ("2", None)]

    working(kubeconfig, story)


def test_own_writes_are_known_at_once_and_told_once(kubeconfig: Path) -> None:
    async def story(api: Api, where: str) -> None:
        maps = path("v1", "configmaps", where)
        async with caching(api, maps) as (cache, news):
            await cache.synced()
            made = await api.create(maps, told("a"), Settings)
            cache.learn(made)
            assert cache.objects[where, "a"] == made
            await api.delete(path("v1", "configmaps", where, "a"), uid=made.metadata.uid)
            cache.forget(made)
            assert not cache.objects
            again = await api.create(maps, told("a"), Settings)
            await until(lambda: cache.objects.get((where, "a")) == again)
            await api.create(maps, told("end"))
            await until(lambda: (where, "end") in cache.objects)

        uids = [one.metadata.uid for old, new in news if (one := new or old)]
        assert uids[:3] == [made.metadata.uid, made.metadata.uid, again.metadata.uid]
        assert len(news) == 4

    working(kubeconfig, story)


def test_a_selector_is_the_servers_work(kubeconfig: Path) -> None:
    async def story(api: Api, where: str) -> None:
        maps, one = path("v1", "configmaps", where), path("v1", "configmaps", where, "a")
        async with caching(api, maps, labels="team=x") as (cache, _):
            await cache.synced()
            await api.create(maps, told("other", {"team": "y"}))
            made = await api.create(maps, told("a", {"team": "x"}), Settings)
            meant = Expected(made.metadata.uid)
            await until(lambda: names(cache) == {"a"})
            await api.patch(one, {"metadata": {"labels": {"team": "y"}}}, meant=meant)
            await until(lambda: names(cache) == set())
            await api.patch(one, {"metadata": {"labels": {"team": "x"}}}, meant=meant)
            await until(lambda: names(cache) == {"a"})

    working(kubeconfig, story)


def test_what_happens_while_the_line_is_cut_is_known_after_it_is_mended(
    kubeconfig: Path, tmp_path: Path
) -> None:
    async def story(api: Api, where: str) -> None:
        maps = path("v1", "configmaps", where)
        await api.create(maps, told("kept"))
        await api.create(maps, told("doomed"))
        async with line(api.access.server) as wire:
            through = at_port(kubeconfig, tmp_path, wire.port)
            async with Api(through, patience=1) as far, caching(far, maps) as (cache, news):
                await cache.synced()
                for round in range(5):
                    wire.cut()
                    await api.create(maps, told(f"new{round}"))
                    if round == 2:
                        await remove(api, path("v1", "configmaps", where, "doomed"))
                    wire.mend()
                    await until(lambda name=f"new{round}": name in names(cache))  # type: ignore[misc]
                expected = {"kept", *(f"new{round}" for round in range(5))}
                await until(lambda: names(cache) == expected)
                listed = far.requests["GET configmaps"]

        assert listed == 1, "a broken watch goes on where it was, without a new list"
        ended = [old.metadata.name for old, new in news if old and new is None]
        assert ended == ["doomed"]

    working(kubeconfig, story)


def test_a_kind_is_watched_from_the_moment_it_is_installed(kubeconfig: Path) -> None:
    async def story(api: Api, where: str) -> None:
        plural, made = crd()
        things = path("example.com/v1", plural, where)
        definitions = path("apiextensions.k8s.io/v1", "customresourcedefinitions")
        thing = {
            "apiVersion": "example.com/v1",
            "kind": made["spec"]["names"]["kind"],
            "metadata": told("a")["metadata"],
        }
        async with caching(api, things) as (cache, _):
            with pytest.raises(BadInput, match="does not know"):
                await cache.synced()
            await api.create(definitions, made)
            try:
                await until(lambda: cache.trouble is None)
                await cache.synced()
                await api.create(things, thing)
                await until(lambda: names(cache) == {"a"})
            finally:
                await remove(api, f"{definitions}/{made['metadata']['name']}")

    working(kubeconfig, story)


def test_hundreds_of_pods_are_cached_while_they_are_created(kubeconfig: Path) -> None:
    async def story(api: Api, where: str) -> None:
        pods = path("v1", "pods", where)
        numbers = iter(range(300))

        async def sender(cache: Cache[Settings]) -> None:
            for number in numbers:
                body = {
                    "metadata": told(f"p{number}")["metadata"],
                    "spec": {"containers": [{"name": "main", "image": "none"}]},
                }
                cache.learn(await api.create(pods, body, Settings))

        async with caching(api, pods) as (cache, news), asyncio.TaskGroup() as group:
            for _ in range(32):
                group.create_task(sender(cache))
            await until(lambda: len(cache.objects) == 300)
        versions = [int(new.metadata.resourceVersion) for _, new in news if new]
        assert len(versions) == len(set(versions))
        found = await api.listing(pods, Settings)
        assert {each.metadata.name: each for each in found.items} == {
            name: each for (_, name), each in cache.objects.items()
        }

    working(kubeconfig, story)


def test_an_unreachable_server_is_trouble_until_it_answers(kubeconfig: Path, tmp_path: Path) -> None:
    async def story(api: Api, where: str) -> None:
        maps = path("v1", "configmaps", where)
        async with line(api.access.server) as wire:
            wire.cut()
            through = at_port(kubeconfig, tmp_path, wire.port)
            async with Api(through, patience=0.2) as far, caching(far, maps) as (cache, _):
                await until(lambda: isinstance(cache.trouble, ApiError))
                wire.mend()
                await cache.synced()
                assert cache.trouble is None

    working(kubeconfig, story)
