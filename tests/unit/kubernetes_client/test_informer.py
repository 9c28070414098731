"""Does a cache stay true, whatever happens to its lists and watches?"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from bireme.backends.kubernetes.client.api import Api
from bireme.backends.kubernetes.client.informer import Cache
from bireme.errors import BadInput, NoAccess
from tests.unit.kubernetes_client.server import (
    PODS,
    Handler,
    Thing,
    Watch,
    access,
    listing,
    run,
    serving,
    status,
    thing,
    until,
)

Told = list[tuple[str | None, str | None]]
Play = Callable[[Watch], Awaitable[None]]


def label(one: Thing | None) -> str | None:
    return f"{one.metadata.name}@{one.metadata.resourceVersion}" if one else None


@asynccontextmanager
async def caching(handler: Handler) -> AsyncIterator[tuple[Cache[Thing], Told]]:
    """Runs a cache against the handler, and writes down what it told."""
    told: Told = []
    async with serving(handler) as where, Api(where, patience=0.5) as api:
        cache = Cache(
            api, PODS, Thing, lambda old, new: told.append((label(old), label(new))), labels="app=x"
        )
        running = asyncio.ensure_future(cache.run())
        try:
            yield cache, told
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


def idle() -> tuple[Cache[Thing], Told]:
    """A cache that does not run, for what `learn` and `forget` do by themselves."""
    told: Told = []
    api = Api(access("http://127.0.0.1:1"))
    return Cache(api, PODS, Thing, lambda old, new: told.append((label(old), label(new)))), told


def playing(
    lists: list[Callable[[], web.Response]], watches: list[Play]
) -> tuple[Handler, list[web.Request]]:
    """Answers lists and watches in turn, the last list for ever; watches beyond the last stay silent."""
    seen: list[web.Request] = []
    plays = iter(watches)

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request)
        if "watch" not in request.query:
            count = sum("watch" not in each.query for each in seen)
            return lists[min(count, len(lists)) - 1]()
        watch = await Watch(request).open()
        play = next(plays, None)
        if play is None:
            await asyncio.Event().wait()
        else:
            await play(watch)
        return watch.response

    return handler, seen


async def silent(watch: Watch) -> None:
    await asyncio.Event().wait()


def names(cache: Cache[Thing]) -> list[str]:
    return sorted(name for _, name in cache.objects)


def test_a_cache_lists_then_watches_from_the_version_of_the_list() -> None:
    async def story() -> None:
        async def play(watch: Watch) -> None:
            await watch.tell("ADDED", thing("b", 11))
            await watch.tell("MODIFIED", thing("a", 12))
            await watch.tell("DELETED", thing("b", 13))
            await silent(watch)

        handler, seen = playing([lambda: listing(10, thing("a", 5))], [play])
        async with caching(handler) as (cache, told):
            await cache.synced()
            await until(lambda: len(told) == 4)
            objects = dict(cache.objects)

        assert told == [(None, "a@5"), (None, "b@11"), ("a@5", "a@12"), ("b@11", None)]
        assert objects == {("ns", "a"): thing("a", 12)}
        assert seen[0].query == {"limit": "500", "labelSelector": "app=x"}
        assert seen[1].query["resourceVersion"] == "10"
        assert seen[1].query["labelSelector"] == "app=x"
        assert seen[1].query["allowWatchBookmarks"] == "true"
        assert 300 <= int(seen[1].query["timeoutSeconds"]) <= 600

    run(story())


def test_a_broken_watch_goes_on_where_it_was() -> None:
    async def story() -> None:
        async def broken(watch: Watch) -> None:
            await watch.tell("MODIFIED", thing("a", 12))
            await watch.write('{"type":"MODIFIED","object":{"meta')
            await asyncio.sleep(0.05)
            watch.drop()

        async def rest(watch: Watch) -> None:
            await watch.tell("MODIFIED", thing("a", 15))
            await silent(watch)

        handler, seen = playing([lambda: listing(10, thing("a", 5))], [broken, rest])
        async with caching(handler) as (_, told):
            await until(lambda: len(told) == 3)

        assert told == [(None, "a@5"), ("a@5", "a@12"), ("a@12", "a@15")]
        assert [each.query.get("resourceVersion") for each in seen] == [None, "10", "12"]

    run(story())


def test_a_watch_that_the_server_ends_goes_on_from_the_last_bookmark() -> None:
    async def story() -> None:
        async def marked(watch: Watch) -> None:
            await watch.tell("MODIFIED", thing("a", 12))
            await watch.bookmark(40)

        handler, seen = playing([lambda: listing(10, thing("a", 5))], [marked])
        async with caching(handler):
            await until(lambda: len(seen) == 3)
        assert seen[2].query["resourceVersion"] == "40"

    run(story())


def test_a_gap_is_closed_by_a_new_list_that_also_tells_what_vanished() -> None:
    async def story() -> None:
        async def expired(watch: Watch) -> None:
            error = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
            await watch.write(json.dumps({"type": "ERROR", "object": error}) + "\n")

        handler, seen = playing(
            [
                lambda: listing(10, thing("a", 5), thing("b", 6), thing("c", 7, "old")),
                lambda: listing(90, thing("a", 5), thing("c", 80, "new"), thing("d", 85)),
            ],
            [expired],
        )
        async with caching(handler) as (cache, told):
            await until(lambda: ("ns", "d") in cache.objects and ("ns", "b") not in cache.objects)
            await until(lambda: len(seen) == 4)

        assert told[:3] == [(None, "a@5"), (None, "b@6"), (None, "c@7")]
        assert told[3:] == [("c@7", None), (None, "c@80"), (None, "d@85"), ("b@6", None)]
        assert "resourceVersion" not in seen[2].query
        assert seen[3].query["resourceVersion"] == "90"

    run(story())


def test_a_gap_that_is_told_by_the_status_of_the_answer_is_closed_as_well() -> None:
    async def story() -> None:
        gone = True

        async def handler(request: web.Request) -> web.StreamResponse:
            nonlocal gone
            if "watch" not in request.query:
                return listing(10, thing("a", 5)) if gone else listing(20, thing("b", 15))
            if gone:
                gone = False
                return status(410, "Expired")
            await asyncio.Event().wait()
            raise AssertionError

        async with caching(handler) as (cache, _):
            await until(lambda: names(cache) == ["b"])

    run(story())


def test_a_kind_just_made_is_watched_as_soon_as_the_server_is_ready() -> None:
    async def story() -> None:
        asked = 0

        async def handler(request: web.Request) -> web.StreamResponse:
            nonlocal asked
            asked += 1
            if asked <= 2:
                return status(429, "TooManyRequests", "storage is (re)initializing", Retry_After="0")
            if "watch" not in request.query:
                return listing(10, thing("a", 5))
            return (await Watch(request).open()).response

        async with caching(handler) as (cache, _):
            await cache.synced()
            assert names(cache) == ["a"]

    run(story())


def test_a_server_that_fails_for_a_while_leaves_a_cache_that_knows_it() -> None:
    async def story() -> None:
        failing = True

        async def handler(request: web.Request) -> web.StreamResponse:
            if failing:
                return status(500, "InternalError", "etcd is away")
            if "watch" not in request.query:
                return listing(10, thing("a", 5))
            await asyncio.Event().wait()
            raise AssertionError

        async with caching(handler) as (cache, _):
            await until(lambda: cache.trouble is not None)
            assert "etcd is away" in str(cache.trouble)
            failing = False
            await cache.synced()
            assert names(cache) == ["a"]
            assert cache.trouble is None

    run(story())


def test_a_kind_that_the_server_does_not_know_is_said_in_a_sentence() -> None:
    async def story() -> None:
        async def handler(request: web.Request) -> web.StreamResponse:
            return web.Response(status=404, text="404 page not found\n")

        async with serving(handler) as where, Api(where) as api:
            cache = Cache(api, "/apis/kubeflow.org/v1/tfjobs", Thing, lambda old, new: None)
            running = asyncio.ensure_future(cache.run())
            with pytest.raises(BadInput, match=r"does not know tfjobs.kubeflow.org/v1") as caught:
                await cache.synced()
            running.cancel()
        assert caught.value.hint == "bireme install"

    run(story())


def test_a_kind_that_we_may_not_see_is_said_in_a_sentence() -> None:
    async def story() -> None:
        message = (
            'pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "ns"'
        )

        async def handler(request: web.Request) -> web.StreamResponse:
            return status(403, "Forbidden", message)

        async with caching(handler) as (cache, _):
            with pytest.raises(NoAccess, match="user jane may not list pods in namespace ns"):
                await cache.synced()

    run(story())


def test_an_event_that_cannot_be_read_is_passed_over() -> None:
    async def story() -> None:
        async def play(watch: Watch) -> None:
            odd = {"metadata": {"name": "odd", "resourceVersion": "14"}, "spec": 3}
            await watch.write(json.dumps({"type": "ADDED", "object": odd}, separators=(",", ":")) + "\n")

        handler, seen = playing([lambda: listing(10, thing("a", 5))], [play])
        async with caching(handler) as (cache, _):
            await until(lambda: len(seen) == 3)
            assert names(cache) == ["a"]
        assert seen[2].query["resourceVersion"] == "14"

    run(story())


def test_the_echo_of_an_own_write_wakes_nobody() -> None:
    async def story() -> None:
        proceed = asyncio.Event()

        async def play(watch: Watch) -> None:
            await proceed.wait()
            await watch.tell("MODIFIED", thing("a", 12))
            await watch.tell("MODIFIED", thing("a", 14))
            await watch.tell("ADDED", thing("end", 15))
            await silent(watch)

        handler, _ = playing([lambda: listing(10, thing("a", 5))], [play])
        async with caching(handler) as (cache, told):
            await cache.synced()
            cache.learn(thing("a", 14))
            proceed.set()
            await until(lambda: ("ns", "end") in cache.objects)
        assert told == [(None, "a@5"), ("a@5", "a@14"), (None, "end@15")]

    run(story())


def test_an_object_that_was_learned_survives_an_older_list() -> None:
    async def story() -> None:
        proceed = asyncio.Event()

        async def handler(request: web.Request) -> web.StreamResponse:
            if "watch" in request.query:
                await asyncio.Event().wait()
            await proceed.wait()
            return listing(10, thing("old", 5))

        async with caching(handler) as (cache, _):
            cache.learn(thing("new", 12))
            cache.learn(thing("vanished", 9))
            proceed.set()
            await cache.synced()
            assert names(cache) == ["new", "old"]

    run(story())


def test_what_was_forgotten_does_not_come_back_but_its_successor_does() -> None:
    cache, told = idle()
    cache.learn(thing("a", 5, "first"))
    cache.forget(thing("a", 5, "first"))
    cache.learn(thing("a", 7, "first"))

    assert cache.objects == {}

    cache.learn(thing("a", 9, "second"))
    cache.forget(thing("a", 5, "first"))

    assert cache.objects == {("ns", "a"): thing("a", 9, "second")}
    assert told == [(None, "a@5"), ("a@5", None), (None, "a@9")]


def test_an_answer_that_comes_late_does_not_bring_back_a_predecessor() -> None:
    cache, told = idle()
    cache.learn(thing("a", 9, "second"))
    cache.learn(thing("a", 7, "first"))

    assert cache.objects == {("ns", "a"): thing("a", 9, "second")}
    assert told == [(None, "a@9")]


def test_labels_that_leave_the_selector_and_come_back_are_seen_again() -> None:
    async def story() -> None:
        async def play(watch: Watch) -> None:
            await watch.tell("DELETED", thing("a", 12))
            await watch.tell("ADDED", thing("a", 13))
            await silent(watch)

        handler, _ = playing([lambda: listing(10, thing("a", 5))], [play])
        async with caching(handler) as (_, told):
            await until(lambda: len(told) == 3)
        assert told == [(None, "a@5"), ("a@5", None), (None, "a@13")]

    run(story())


@given(st.permutations([*[(version, False) for version in range(1, 8)], (8, True)]), st.data())
def test_news_in_any_order_ends_in_the_newest(news: list[tuple[int, bool]], data: st.DataObject) -> None:
    cache, told = idle()
    for version, ends in news + data.draw(st.lists(st.sampled_from(news))):
        one = thing("a", version)
        if ends:
            cache.forget(one)
        else:
            cache.learn(one)

    assert cache.objects == {}
    versions = [int(new.partition("@")[2]) for _, new in told if new]
    assert versions == sorted(set(versions))
