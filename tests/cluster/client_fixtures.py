"""What the tests of the client share: a namespace of their own, small objects, and a line that can be cut."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from random import SystemRandom
from typing import Any

import yaml
from msgspec import Struct

from bireme.backends.kubernetes.client.access import Access, find
from bireme.backends.kubernetes.client.api import Api
from bireme.backends.kubernetes.client.paths import path
from bireme.backends.kubernetes.objects.api_types import Meta

LIMIT = 60.0
MINE = "by=test"
"""Chooses the objects of the tests: controllers put their own into every namespace."""


class Settings(Struct, frozen=True):
    """What these tests read of a ConfigMap."""

    metadata: Meta
    data: dict[str, str] = {}


def told(name: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    """A ConfigMap to be created."""
    return {"metadata": {"name": name, "labels": {"by": "test", **(labels or {})}}, "data": data}


def working(kubeconfig: Path, story: Callable[[Api, str], Coroutine[Any, Any, None]]) -> None:
    """Plays a story with a client and a fresh namespace."""

    async def play() -> None:
        async with asyncio.timeout(LIMIT), Api(find(time, SystemRandom(), kubeconfig=str(kubeconfig))) as api:
            name = f"client-{secrets.token_hex(4)}"
            await api.create(path("v1", "namespaces"), {"metadata": {"name": name}})
            try:
                await story(api, name)
            finally:
                await remove(api, path("v1", "namespaces", "", name))

    asyncio.run(play())


async def remove(api: Api, where: str) -> None:
    """Deletes whatever is there."""
    await api.delete(where, uid=(await api.get(where, Settings)).metadata.uid)


def with_user(kubeconfig: Path, folder: Path, changes: dict[str, Any]) -> Access:
    """The same server as someone else; a change to None removes what the kubeconfig says."""
    tree = yaml.safe_load(kubeconfig.read_text())
    tree["users"][0]["user"].update(changes)
    return _written(tree, folder)


def at_port(kubeconfig: Path, folder: Path, port: int) -> Access:
    """The same server behind another port of this machine."""
    tree = yaml.safe_load(kubeconfig.read_text())
    tree["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
    return _written(tree, folder)


def crd() -> tuple[str, dict[str, Any]]:
    """A kind of its own: the plural, and the definition."""
    name = f"thing{secrets.token_hex(4)}"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": f"{name}s", "singular": name, "kind": name.capitalize()},
        "versions": [version],
    }
    return f"{name}s", {"metadata": {"name": f"{name}s.example.com"}, "spec": spec}


class Line:
    """A TCP line to the API server that a test can cut and mend."""

    def __init__(self, port: int) -> None:
        self.port = 0
        self.down = False
        self._to = port
        self._ends: set[asyncio.StreamWriter] = set()

    def cut(self) -> None:
        """Breaks every connection, and refuses new ones until it is mended."""
        self.down = True
        for each in self._ends:
            each.transport.abort()

    def mend(self) -> None:
        self.down = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.down:
            writer.transport.abort()
            return
        there_reader, there = await asyncio.open_connection("127.0.0.1", self._to)
        self._ends |= {writer, there}
        await asyncio.gather(_pump(reader, there), _pump(there_reader, writer))
        self._ends -= {writer, there}


@asynccontextmanager
async def line(server: str) -> AsyncIterator[Line]:
    """Lays a line to the server, which listens on this machine."""
    made = Line(int(server.rpartition(":")[2]))
    listener = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = listener.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        made.cut()
        listener.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


def _written(tree: dict[str, Any], folder: Path) -> Access:
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(tree))
    return find(time, SystemRandom(), kubeconfig=str(file), environ={})
