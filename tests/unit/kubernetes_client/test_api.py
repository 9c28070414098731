"""Does the client ask rightly, and does it come through the faults of a server?"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable

import pytest
from aiohttp import web

from bireme.backends.kubernetes.client.api import LONGEST_LINE, Api, ApiError, ByName, Expected
from bireme.backends.kubernetes.client.api_errors import DISCONNECTED, UNREACHABLE, UNREADABLE
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
    tree,
)


def first(*answers: Callable[[], web.Response]) -> tuple[Handler, list[web.Request]]:
    """Answers one after the other, the last for ever, and keeps what was asked."""
    seen: list[web.Request] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        await request.read()
        seen.append(request)
        return answers[min(len(seen), len(answers)) - 1]()

    return handler, seen


def good() -> web.Response:
    return web.json_response(tree(thing("a", 7)))


def test_objects_are_decoded_into_the_type_or_into_a_tree() -> None:
    async def story() -> None:
        handler, _ = first(good)
        async with serving(handler) as where, Api(where) as api:
            assert await api.get(f"{PODS}/a", Thing) == thing("a", 7)
            assert (await api.get(f"{PODS}/a"))["metadata"]["name"] == "a"

    run(story())


def test_every_verb_has_its_method_body_and_query() -> None:
    async def story() -> None:
        handler, seen = first(good)
        async with serving(handler) as where, Api(where) as api:
            await api.create(PODS, thing("a", 0), Thing, dryRun="All")
            await api.create(PODS, b'{"raw": 1}')
            await api.patch(f"{PODS}/a/status", {"status": {}}, meant=Expected("u", "7"))
            await api.patch(f"{PODS}/a", {}, meant=ByName.INSTALLS, how="apply", force="true")
            await api.delete(f"{PODS}/a", uid="u", grace=0, propagation="Background")
            counted = dict(api.requests)
        bodies = [json.loads(await each.read()) for each in seen]

        assert [each.method for each in seen] == ["POST", "POST", "PATCH", "PATCH", "DELETE"]
        assert seen[0].query == {"dryRun": "All"}
        assert bodies[0] == tree(thing("a", 0))
        assert bodies[1] == {"raw": 1}
        assert bodies[2] == {"status": {}, "metadata": {"uid": "u", "resourceVersion": "7"}}
        assert bodies[3] == {}
        assert seen[2].content_type == "application/merge-patch+json"
        assert seen[3].content_type == "application/apply-patch+yaml"
        assert seen[3].query == {"force": "true", "fieldManager": "bireme"}
        assert bodies[4]["preconditions"] == {"uid": "u"}
        assert bodies[4]["gracePeriodSeconds"] == 0
        assert bodies[4]["propagationPolicy"] == "Background"
        assert counted == {
            "POST pods": 2,
            "PATCH pods/status": 1,
            "PATCH pods": 1,
            "DELETE pods": 1,
        }

    run(story())


def test_selectors_reach_the_server_as_they_were_written() -> None:
    async def story() -> None:
        handler, seen = first(lambda: listing(1))
        async with serving(handler) as where, Api(where) as api:
            await api.listing(
                PODS, Thing, labelSelector="a=b,c in (d, e),!f", fieldSelector="spec.nodeName=n&m+o"
            )
        assert seen[0].query["labelSelector"] == "a=b,c in (d, e),!f"
        assert seen[0].query["fieldSelector"] == "spec.nodeName=n&m+o"

    run(story())


def test_too_many_requests_are_tried_again_after_the_wait_that_the_server_names() -> None:
    async def story() -> None:
        handler, seen = first(lambda: status(429, "TooManyRequests", Retry_After="1"), good)
        async with serving(handler) as where, Api(where) as api:
            began = asyncio.get_running_loop().time()
            assert await api.create(PODS, {}, Thing) == thing("a", 7)
            assert asyncio.get_running_loop().time() - began >= 1.0
        assert len(seen) == 2

    run(story())


@pytest.mark.parametrize("code", [500, 502, 503, 504])
def test_failures_of_the_server_are_tried_again(code: int) -> None:
    async def story() -> None:
        handler, seen = first(lambda: status(code, "InternalError"), lambda: status(code, "x"), good)
        async with serving(handler) as where, Api(where) as api:
            assert await api.patch(f"{PODS}/a", {}, Thing, meant=Expected("u")) == thing("a", 7)
        assert len(seen) == 3

    run(story())


def test_trying_again_ends_with_the_patience() -> None:
    async def story() -> None:
        handler, seen = first(lambda: status(503, "ServiceUnavailable", "etcd is away"))
        async with serving(handler) as where, Api(where, patience=0.5) as api:
            with pytest.raises(ApiError, match="etcd is away") as caught:
                await api.get(PODS)
        assert caught.value.status == 503
        assert len(seen) > 1

    run(story())


@pytest.mark.parametrize(
    ("code", "reason"), [(400, "BadRequest"), (403, "Forbidden"), (409, "Conflict"), (422, "Invalid")]
)
def test_refusals_are_raised_at_once(code: int, reason: str) -> None:
    async def story() -> None:
        handler, seen = first(lambda: status(code, reason, "so it is", {"name": "a"}))
        async with serving(handler) as where, Api(where) as api:
            with pytest.raises(ApiError) as caught:
                await api.create(PODS, {})
        error = caught.value
        assert (error.status, error.reason, error.message, error.details) == (
            code,
            reason,
            "so it is",
            {"name": "a"},
        )
        assert len(seen) == 1

    run(story())


def dropping(times: int) -> tuple[Handler, list[str]]:
    """Carries out what is asked, but breaks the connection before the answer."""
    seen: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        await request.read()
        seen.append(request.method)
        if len(seen) <= times:
            assert request.transport is not None
            request.transport.abort()
        return good()

    return handler, seen


def test_a_create_whose_answer_was_lost_is_sent_again() -> None:
    async def story() -> None:
        handler, seen = dropping(2)
        async with serving(handler) as where, Api(where) as api:
            assert await api.create(PODS, {}, Thing) == thing("a", 7)
        assert seen == ["POST"] * 3

    run(story())


def test_a_json_patch_whose_answer_was_lost_is_not_sent_again() -> None:
    async def story() -> None:
        handler, seen = dropping(1)
        async with serving(handler) as where, Api(where) as api:
            with pytest.raises(ApiError) as caught:
                await api.patch(f"{PODS}/a", [], meant=Expected("u"), how="json")
        assert caught.value.reason == DISCONNECTED
        assert seen == ["PATCH"]

    run(story())


def test_an_answer_that_breaks_off_in_its_middle_is_asked_for_again() -> None:
    async def story() -> None:
        seen: list[str] = []

        async def handler(request: web.Request) -> web.StreamResponse:
            seen.append(request.method)
            if len(seen) > 1:
                return good()
            response = web.StreamResponse(headers={"Content-Length": "500"})
            await response.prepare(request)
            await response.write(b'{"metadata": {"na')
            assert request.transport is not None
            request.transport.abort()
            return response

        async with serving(handler) as where, Api(where) as api:
            assert await api.get(f"{PODS}/a", Thing) == thing("a", 7)
        assert len(seen) == 2

    run(story())


def test_a_server_that_never_answered_is_given_up_after_two_seconds() -> None:
    async def story() -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
        async with Api(access(f"http://127.0.0.1:{port}")) as api:
            with pytest.raises(ApiError) as caught:
                await api.get("/version")
        assert (caught.value.status, caught.value.reason) == (0, UNREACHABLE)

    run(story())


def test_an_answer_of_something_else_is_unreadable() -> None:
    async def story() -> None:
        handler, _ = first(lambda: web.Response(text="<html>Log in</html>", content_type="text/html"))
        async with serving(handler) as where, Api(where) as api:
            with pytest.raises(ApiError, match="Log in") as caught:
                await api.get(PODS, Thing)
        assert caught.value.reason == UNREADABLE

    run(story())


def test_nothing_is_deleted_or_changed_without_a_uid() -> None:
    async def story() -> None:
        handler, seen = first(good)
        async with serving(handler) as where, Api(where) as api:
            with pytest.raises(ValueError, match="the uid of the object"):
                await api.delete(f"{PODS}/a", uid="")
            with pytest.raises(ValueError, match="the uid of the object"):
                await api.patch(f"{PODS}/a", {}, meant=Expected(""))
        assert seen == []

    run(story())


def test_what_was_gone_already_is_not_an_error_of_delete() -> None:
    other = "Precondition failed: UID in precondition: u, UID in object meta: v"
    said = "the UID in the precondition (u) does not match the UID in record (v)"

    async def story() -> None:
        handler, _ = first(
            lambda: status(404, "NotFound"),
            lambda: status(409, "Conflict", other),
            lambda: status(409, "Conflict", said),
            lambda: status(409, "Conflict", "busy"),
            lambda: status(200, ""),
            good,
        )
        async with serving(handler) as where, Api(where) as api:
            assert await api.delete(f"{PODS}/a", uid="u") is None
            assert await api.delete(f"{PODS}/a", uid="u") is None
            assert await api.delete(f"{PODS}/a", uid="u") is None
            with pytest.raises(ApiError, match="busy"):
                await api.delete(f"{PODS}/a", uid="u")
            assert await api.delete(f"{PODS}/a", Thing, uid="u") is None
            assert await api.delete(f"{PODS}/a", Thing, uid="u") == thing("a", 7)

    run(story())


def test_a_list_is_read_in_pages() -> None:
    async def story() -> None:
        asked: list[dict[str, str]] = []

        async def handler(request: web.Request) -> web.StreamResponse:
            asked.append(dict(request.query))
            if "continue" in request.query:
                return listing(9, thing("b", 5))
            return listing(9, thing("a", 4), more="next")

        async with serving(handler) as where, Api(where) as api:
            found = await api.listing(PODS, Thing, resourceVersion="0")

        assert found.items == (thing("a", 4), thing("b", 5))
        assert found.version == "9"
        assert asked == [{"limit": "500", "resourceVersion": "0"}, {"limit": "500", "continue": "next"}]

    run(story())


def test_a_list_that_expires_between_two_pages_is_read_anew_in_one_piece() -> None:
    async def story() -> None:
        async def handler(request: web.Request) -> web.StreamResponse:
            if "continue" in request.query:
                return status(410, "Expired")
            if "limit" in request.query:
                return listing(9, thing("a", 4), more="next")
            return listing(12, thing("a", 4), thing("b", 11))

        async with serving(handler) as where, Api(where) as api:
            found = await api.listing(PODS, Thing)

        assert [each.metadata.name for each in found.items] == ["a", "b"]
        assert found.version == "12"

    run(story())


def test_an_odd_object_does_not_hide_the_others() -> None:
    async def story() -> None:
        async def handler(request: web.Request) -> web.StreamResponse:
            items = [tree(thing("a", 1)), {"metadata": {"name": "odd"}, "spec": 3}, tree(thing("b", 2))]
            return web.json_response({"metadata": {"resourceVersion": "5"}, "items": items})

        async with serving(handler) as where, Api(where) as api:
            found = await api.listing(PODS, Thing)
        assert [each.metadata.name for each in found.items] == ["a", "b"]

    run(story())


def test_a_watch_tells_changes_and_keeps_bookmarks_to_itself() -> None:
    async def story() -> None:
        async def handler(request: web.Request) -> web.StreamResponse:
            watch = await Watch(request).open()
            await watch.tell("ADDED", thing("a", 1, text="ü" * 100_000))
            await watch.bookmark(5)
            await watch.tell("DELETED", thing("a", 6))
            return watch.response

        async with serving(handler) as where, Api(where) as api:
            changes = [each async for each in api.watch(PODS, Thing)]
            counted = dict(api.requests)

        assert [each.type for each in changes] == ["ADDED", "DELETED"]
        assert changes[0].object == thing("a", 1, text="ü" * 100_000)
        assert counted == {"WATCH pods": 1}

    run(story())


def test_an_error_in_a_watch_is_raised() -> None:
    async def story() -> None:
        async def handler(request: web.Request) -> web.StreamResponse:
            watch = await Watch(request).open()
            error = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
            await watch.write(json.dumps({"type": "ERROR", "object": error}) + "\n")
            return watch.response

        async with serving(handler) as where, Api(where) as api:
            with pytest.raises(ApiError, match="too old") as caught:
                [each async for each in api.watch(PODS, Thing)]
        assert caught.value.status == 410

    run(story())


def test_a_watch_whose_connection_breaks_says_so_after_what_it_told() -> None:
    async def story() -> None:
        async def handler(request: web.Request) -> web.StreamResponse:
            watch = await Watch(request).open()
            await watch.tell("ADDED", thing("a", 1))
            await watch.write('{"type":"ADDED","obj')
            await asyncio.sleep(0.05)
            watch.drop()
            return watch.response

        told: list[str] = []

        async def follow(api: Api) -> None:
            async for each in api.watch(PODS, Thing):
                told.append(each.object.metadata.name)

        async with serving(handler) as where, Api(where) as api:
            with pytest.raises(ApiError) as caught:
                await follow(api)
        assert told == ["a"]
        assert caught.value.reason == DISCONNECTED

    run(story())


def test_a_log_comes_line_by_line_however_it_was_cut() -> None:
    async def story() -> None:
        async def handler(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            for piece in (b"on", b"e\ntwo\n", b"\nth", b"ree"):
                await response.write(piece)
                await asyncio.sleep(0.01)
            return response

        async with serving(handler) as where, Api(where) as api:
            assert [each async for each in api.lines(f"{PODS}/a/log")] == [b"one", b"two", b"", b"three"]

    run(story())


def test_a_line_of_a_log_without_an_end_does_not_fill_the_memory() -> None:
    async def story() -> None:
        async def handler(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            for _ in range(5):
                await response.write(b"x" * (LONGEST_LINE // 2))
            await response.write(b"\nnext\n")
            return response

        async with serving(handler) as where, Api(where) as api:
            found = [each async for each in api.lines(f"{PODS}/a/log")]

        assert [len(each) for each in found] == [LONGEST_LINE, 4]

    run(story())


def test_sixty_four_requests_run_at_the_same_time() -> None:
    async def story() -> None:
        together = asyncio.Barrier(64)

        async def handler(request: web.Request) -> web.StreamResponse:
            await together.wait()
            return good()

        async with serving(handler) as where, Api(where) as api, asyncio.TaskGroup() as group:
            for _ in range(64):
                group.create_task(api.create(PODS, {}))

    run(story())
