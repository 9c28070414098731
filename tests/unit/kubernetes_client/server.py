"""A real HTTP server that answers as an API server does, with the faults that a test asks for."""

from __future__ import annotations

import asyncio
import functools
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from random import Random
from typing import Any, TypeVar

from aiohttp import web
from msgspec import Struct

from bireme.backends.kubernetes.client import access as accessing
from bireme.backends.kubernetes.client.access import Access
from bireme.backends.kubernetes.client.kubeconfigs import ChosenContext, Cluster, User

R = TypeVar("R")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
PODS = "/api/v1/namespaces/ns/pods"
LIMIT = 20.0


class Meta(Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""


class Thing(Struct, frozen=True):
    metadata: Meta
    spec: dict[str, str] = {}


def thing(name: str, version: int, uid: str = "", **spec: str) -> Thing:
    return Thing(Meta(name, "ns", uid or f"uid-{name}", str(version)), spec)


def tree(one: Thing) -> dict[str, Any]:
    meta = one.metadata
    return {
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            "resourceVersion": meta.resourceVersion,
        },
        "spec": one.spec,
    }


def listing(version: int, *things: Thing, more: str = "") -> web.Response:
    metadata = {"resourceVersion": str(version), "continue": more}
    return web.json_response({"kind": "List", "metadata": metadata, "items": [tree(each) for each in things]})


def status(
    code: int, reason: str, message: str = "no", details: dict[str, Any] | None = None, **headers: str
) -> web.Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details or {}}
    spelled = {key.replace("_", "-"): value for key, value in headers.items()}
    return web.json_response(body, status=code, headers=spelled)


class Watch:
    """The server's end of a watch."""

    def __init__(self, request: web.Request) -> None:
        self.request = request
        self.since = request.query.get("resourceVersion", "")
        self.response = web.StreamResponse(headers={"Content-Type": "application/json"})

    async def open(self) -> Watch:
        await self.response.prepare(self.request)
        return self

    async def tell(self, kind: str, one: Thing) -> None:
        await self.write(json.dumps({"type": kind, "object": tree(one)}, separators=(",", ":")) + "\n")

    async def bookmark(self, version: int) -> None:
        # A real one has nulls where the type wants values.
        metadata = {"resourceVersion": str(version), "creationTimestamp": None}
        event = {"type": "BOOKMARK", "object": {"kind": "Thing", "metadata": metadata, "spec": None}}
        await self.write(json.dumps(event, separators=(",", ":")) + "\n")

    async def write(self, text: str) -> None:
        await self.response.write(text.encode())

    def drop(self) -> None:
        """Breaks the connection as a dying server does: without an end."""
        transport = self.request.transport
        assert transport is not None
        transport.abort()


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[Access]:
    """Serves every request with the handler and gives the access to it."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield access(f"http://127.0.0.1:{port}")
    finally:
        await runner.cleanup()


def access(server: str, user: User | None = None, **cluster: Any) -> Access:
    choice = ChosenContext("test", "ns", Cluster(server=server, **cluster), user or User(), "jane")
    return Access(choice, {}, time, Random(1))


find = functools.partial(accessing.find, time, Random(1))


def run(work: Coroutine[Any, Any, R]) -> R:
    """Runs a test that must not hang."""

    async def limited() -> R:
        async with asyncio.timeout(LIMIT):
            return await work

    return asyncio.run(limited())


async def until(condition: Callable[[], bool]) -> None:
    """Waits until the condition holds; the test's own limit ends it."""
    while not condition():
        await asyncio.sleep(0.005)
