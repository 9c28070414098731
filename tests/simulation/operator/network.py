"""How does an operator reach the API server: slowly, in vain, twice, and not after its death.

The client is the real one, from its verbs down to when it tries again; only its connection is ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any

import msgspec

from bireme.backends.kubernetes.client.access import Access
from bireme.backends.kubernetes.client.api import Api
from bireme.backends.kubernetes.client.api_errors import UNREACHABLE, ApiError, refusal
from bireme.backends.kubernetes.client.kubeconfigs import ChosenContext, Cluster, User
from bireme.backends.kubernetes.client.paths import target
from bireme.backends.kubernetes.client.transport import Request, Wire
from tests.simulation import seeing
from tests.simulation.operator.answering import Front
from tests.simulation.operator.history import Story
from tests.simulation.operator.profiles import Profile
from tests.simulation.operator.server import Refused, Server
from tests.simulation.operator.watches import Watches


class Network:
    """What lies between all operators and the server."""

    def __init__(self, server: Server, front: Front, rng: Random, profile: Profile, story: Story) -> None:
        self.server, self.front, self.rng, self.profile, self.story = server, front, rng, profile, story
        self.watches = Watches(server, rng, profile)
        self.calm = False
        self.asked = self.looks = 0
        self.mishaps = 0

    def happens(self, chance: float) -> bool:
        happens = not self.calm and chance > 0.0 and self.rng.random() < chance
        self.mishaps += happens
        return happens

    def delay(self) -> float:
        return self.rng.random() * (0.005 if self.calm else self.profile.latency)

    def oldest(self) -> int:
        """How little a list of any version shows."""
        back = 0.0 if self.calm else self.profile.old_lists * self.rng.random()
        return self.server.version_at(self.story.now - back) if back else self.server.version


class Line(Wire):
    """One operator's connection; `dies` is called when it is the operator's fate to die with a request."""

    def __init__(self, who: str, network: Network, dies: Callable[[], None]) -> None:
        cluster = Cluster(server="http://model")
        super().__init__(
            Access(ChosenContext("model", "default", cluster, User(), who), {}, network.story, network.rng)
        )
        self.who, self._network, self._dies = who, network, dies
        self.is_dead = False
        self.cut_until = self.no_lease_until = 0.0
        self._on_their_way: dict[int, Callable[[], object]] = {}
        self._count = 0

    async def open(self) -> None:
        """There is nothing to open."""

    async def close(self) -> None:
        """There is nothing to close."""

    def die(self) -> None:
        """Nothing comes back any more; what was sent may still be carried out."""
        self.is_dead = True
        for carry_out in list(self._on_their_way.values()):
            carry_out()
        self._on_their_way.clear()

    async def _once(self, request: Request) -> Any:  # what reads as the response of aiohttp does
        network = self._network
        self.sent[request.name] += 1
        if seeing.is_seeing():
            network.looks += 1
            if request.method != "GET":
                network.story.breaks(f"{self.who} {request.method} {request.path} while it only looks")
        await self._pass()
        if self.is_cut() or ("leases" in request.path and network.story.now < self.no_lease_until):
            raise ApiError(0, UNREACHABLE, "no route to the server", source=self.source(request))
        self._answered = True
        if request.query.get("watch"):
            version = int(request.query["resourceVersion"])
            watched = network.watches.open(target(request.path), version, request.query, self.is_lost)
            return Answer(b"", watched)
        if network.happens(network.profile.too_many):
            raise self._refused(request, Refused(429, "TooManyRequests", "later"), "1")
        if network.happens(network.profile.fails_before):
            raise self._failure(request)
        body = await self._carry_out(request)
        if network.happens(network.profile.kill):
            self._dies()
        await self._pass()
        if network.happens(network.profile.fails_after) or self.is_cut():
            network.story.tell(f"{self.who} does not hear of it")
            raise self._failure(request)
        if isinstance(body, Refused):
            raise self._refused(request, body)
        return Answer(body)

    def is_cut(self) -> bool:
        return self._network.story.now < self.cut_until

    def is_lost(self) -> bool:
        return self.is_dead or self.is_cut()

    async def _carry_out(self, request: Request) -> bytes | Refused:
        """The request is on its way; it may arrive although its sender dies meanwhile."""
        network = self._network
        old = network.oldest()
        self._count += 1
        number = self._count
        if network.rng.random() < 0.5:
            self._on_their_way[number] = lambda: self._arrives(request, old)
        if network.happens(network.profile.kill):
            self._dies()
        try:
            await self._pass(network.delay())
        finally:
            self._on_their_way.pop(number, None)
        return self._arrives(request, old)

    def _arrives(self, request: Request, old: int) -> bytes | Refused:
        network = self._network
        about = target(request.path)
        what = f"{self.who} {request.method} {about.resource} {about.name or _name(request)}"
        try:
            answer: bytes | Refused = network.front.answer(self.who, request, old)
        except Refused as refused:
            answer = refused
            what += f": {refused.code} {refused.message}"
        if about.resource != "leases":  # They would drown the rest.
            network.asked += bool(about.name or request.body)
            network.story.tell(what)
        return answer

    async def _pass(self, seconds: float = 0.0) -> None:
        if not self.is_dead:
            await asyncio.sleep(seconds)
        if self.is_dead:  # Whoever is dead waits for ever.
            await asyncio.get_running_loop().create_future()

    def _failure(self, request: Request) -> Exception:
        if self._network.rng.random() < 0.5:
            return ConnectionResetError("reset by the model")
        return self._refused(request, Refused(500, "InternalError", "the server is not well"))

    def _refused(self, request: Request, refused: Refused, later: str = "") -> ApiError:
        said = {
            "kind": "Status",
            "code": refused.code,
            "reason": refused.reason,
            "message": refused.message,
        }
        return refusal(refused.code, msgspec.json.encode(said), self.source(request), later)


class Client(Api):
    """The real client upon a line of the model."""

    def __init__(self, line: Line) -> None:
        super().__init__(line.access)
        self._wire = line
        self.requests = line.sent


class Answer:
    """A response, as far as the client reads one."""

    def __init__(self, body: bytes, chunks: AsyncIterator[bytes] | None = None) -> None:
        self._body, self._chunks = body, chunks
        self.content = self

    async def read(self) -> bytes:
        return self._body

    def iter_any(self) -> AsyncIterator[bytes]:
        assert self._chunks is not None
        return self._chunks

    def close(self) -> None:
        """Nothing is held."""


def _name(request: Request) -> str:
    if request.method != "POST" or not request.body:
        return ""
    name: str = msgspec.json.decode(request.body)["metadata"]["name"]
    return name
