"""An API server that keeps what it is given, refuses what a test says, and writes down what it was asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from aiohttp import web

from bireme.backends.kubernetes.client.api import Api
from tests.unit.kubernetes_client.server import run, serving, status

R = TypeVar("R")
Object = dict[str, Any]  # Any: JSON


class ApiServer:
    """Objects by their path; a patch replaces what is at the top level, and what is in the metadata."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.refusals: dict[tuple[str, str], tuple[int, str, str]] = {}
        """What the server says, by method and by what the path ends with."""
        self.asked: list[str] = []

    def put(self, where: str, owner: str = "", **fields: Any) -> None:
        name, namespace = where.rpartition("/")[2], "ml"
        references = [{"kind": "MPIJob", "name": "mnist", "uid": owner, "controller": True}] if owner else []
        metadata = {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{where}",
            "ownerReferences": references,
        }
        self.objects[where] = {"metadata": metadata, **fields}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(f"{request.method} {'/'.join(request.path.rsplit('/', 2)[-2:])}")
        for (method, end), said in self.refusals.items():
            if request.method == method and request.path.endswith(end):
                return status(*said)
        if request.method == "POST":
            return self._create(request.path, await request.json())
        if request.path not in self.objects:
            return status(404, "NotFound")
        if request.method == "PATCH":
            change = await request.json()
            kept = self.objects[request.path]
            kept |= {
                name: {**kept["metadata"], **value} if name == "metadata" else value
                for name, value in change.items()
            }
        return web.json_response(self.objects[request.path])

    def _create(self, folder: str, body: Object) -> web.Response:
        where = f"{folder}/{body['metadata']['name']}"
        if where in self.objects:
            return status(409, "AlreadyExists", f"{where} already exists")
        body["metadata"] |= {"uid": f"uid-{where}", "resourceVersion": "1"}
        self.objects[where] = body
        return web.json_response(body)


def asked(server: ApiServer, ask: Callable[[Api], Awaitable[R]]) -> R:
    """What comes of asking the server; it must not hang."""

    async def story() -> R:
        async with serving(server.answer) as where, Api(where, patience=0.3) as api:
            return await ask(api)

    return run(story())
