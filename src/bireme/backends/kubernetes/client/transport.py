"""Sends one request: the connection, and when it is tried again."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from random import Random
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from msgspec import Struct

from bireme.backends.kubernetes.client.access import Access
from bireme.backends.kubernetes.client.api_errors import (
    DISCONNECTED,
    UNREACHABLE,
    UNREADABLE,
    UNTRUSTED,
    ApiError,
    RequestOrigin,
    refusal,
)
from bireme.backends.kubernetes.client.paths import target
from bireme.errors import BadInput

try:
    import aiohttp
    from yarl import URL
except ModuleNotFoundError as missing:
    raise BadInput(
        "the Kubernetes backend is not installed", hint="pip install 'bireme[kubernetes]'"
    ) from missing

R = TypeVar("R")

PATIENCE = 30.0
"""Seconds for which a request is tried again."""
FIRST_PATIENCE = 2.0
"""The same for a server that never answered: it is more likely a wrong address than a restart."""
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 65.0
"""The API server itself gives up after 60."""
CONNECTIONS = 256
"""More than 64 requests at a time and a few dozen watches."""
IDLE_SECONDS = 60.0
"""Less than the 90 after which the API server closes an idle connection."""
FIRST_WAIT = 0.1
LONGEST_WAIT = 5.0
TRANSIENT = frozenset({500, 502, 503, 504})
_NOT_CONNECTED = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientProxyConnectionError,
)


class Request(Struct, frozen=True):
    """One request, ready to be sent as often as needed."""

    method: str
    path: str
    query: dict[str, str] = {}
    body: bytes | None = None
    content_type: str = "application/json"
    repeatable: bool = True
    """Whether doing it twice is harmless, so that it may be sent again after the connection broke."""
    answer_seconds: float | None = ANSWER_SECONDS
    """How long silence is borne; None for as long as the connection lives."""
    counted_as: str = ""

    @property
    def name(self) -> str:
        """What it is counted as, such as `POST pods`."""
        return f"{self.counted_as or self.method} {target(self.path).resource}"

    def url(self, server: str) -> str:
        """Returns the whole URL; parameters without a value are left out."""
        given = {key: value for key, value in self.query.items() if value}
        question = f"?{urlencode(given, quote_via=quote)}" if given else ""
        return f"{server}{self.path}{question}"


class Wire:
    """The connections to one API server."""

    def __init__(self, access: Access, patience: float = PATIENCE) -> None:
        self.access = access
        self.patience = patience
        self.sent: Counter[str] = Counter()
        self._answered = False
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Prepares the connections; the first is made when it is needed."""
        connector = aiohttp.TCPConnector(
            limit=CONNECTIONS, keepalive_timeout=IDLE_SECONDS, socket_factory=_lively_socket
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            # Compressing a list costs the API server more than sending it does.
            headers={"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "bireme"},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        )

    async def close(self) -> None:
        """Ends every connection, watches included."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def read(self, request: Request) -> bytes:
        """Sends the request until its answer was read to the end, or raises ApiError."""

        async def once() -> bytes:
            return await (await self._once(request)).read()

        return await self._repeated(request, once)

    async def stream(self, request: Request) -> aiohttp.ClientResponse:
        """Sends the request until an answer begins, or raises ApiError."""
        return await self._repeated(request, lambda: self._once(request))

    async def _repeated(self, request: Request, once: Callable[[], Awaitable[R]]) -> R:
        """Does something once, and again after a failure that passes, for as long as there is patience."""
        clock = asyncio.get_running_loop().time
        began = clock()
        renewed = False
        tries = 0
        while True:
            try:
                with self.translated(request):
                    return await once()
            except ApiError as error:
                if error.status == 401 and not renewed and self.access.renew():
                    renewed = True
                    continue
                wait = _wait(error, request, tries, self.access.chance)
                patience = self.patience if self._answered else min(FIRST_PATIENCE, self.patience)
                if wait is None or clock() - began + wait > patience:
                    raise
            tries += 1
            await asyncio.sleep(wait)

    async def socket(self, request: Request, protocols: tuple[str, ...]) -> aiohttp.ClientWebSocketResponse:
        """Opens a WebSocket, once."""
        self.sent[request.name] += 1
        options = await self._options()
        headers = options.pop("headers")
        with self.translated(request):
            try:
                opened: aiohttp.ClientWebSocketResponse = await self._live.ws_connect(
                    URL(request.url(self.access.server), encoded=True),
                    protocols=protocols,
                    headers=headers,
                    max_msg_size=0,
                    **options,
                )
                return opened
            except aiohttp.WSServerHandshakeError as error:
                raise refusal(error.status, error.message.encode(), self.source(request)) from error

    def source(self, request: Request) -> RequestOrigin:
        """Says who asked what of whom."""
        access = self.access
        return RequestOrigin(access.server, access.context, access.user, request.method, request.path)

    @contextlib.contextmanager
    def translated(self, request: Request) -> Iterator[None]:
        """Turns what HTTP raises into ApiError."""
        try:
            yield
        except (aiohttp.ClientError, TimeoutError, ssl.SSLError, OSError) as error:
            reason = DISCONNECTED
            if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
                reason = UNTRUSTED
            elif isinstance(error, _NOT_CONNECTED):
                reason = UNREACHABLE
            elif isinstance(error, aiohttp.ClientResponseError | aiohttp.InvalidURL):
                reason = UNREADABLE
            text = str(error) or type(error).__name__
            raise ApiError(0, reason, text, source=self.source(request)) from error

    async def _once(self, request: Request) -> aiohttp.ClientResponse:
        self.sent[request.name] += 1
        options = await self._options()
        if request.body is not None:
            options["headers"]["Content-Type"] = request.content_type
        response = await self._live.request(
            request.method,
            URL(request.url(self.access.server), encoded=True),
            data=request.body,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=CONNECT_SECONDS, sock_read=request.answer_seconds
            ),
            **options,
        )
        self._answered = True
        if response.status < 300:
            return response
        body = await response.read()
        raise refusal(response.status, body, self.source(request), response.headers.get("Retry-After", ""))

    async def _options(self) -> dict[str, Any]:
        """What is the same for every request, of the types that aiohttp wants."""
        access = self.access
        headers = await access.headers()
        options: dict[str, Any] = {"headers": headers}
        if (context := access.ssl()) is not None:
            options["ssl"] = context
        if access.tls_server_name:
            options["server_hostname"] = access.tls_server_name
        if access.proxy:
            options["proxy"] = access.proxy
        return options

    @property
    def _live(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the client is used outside of `async with`")
        return self._session


def _wait(error: ApiError, request: Request, tries: int, chance: Random) -> float | None:
    """Seconds until the request is sent again, or None if that would not help or could do harm."""
    harmless = request.repeatable or error.status == 429 or error.reason == UNREACHABLE
    transient = (
        error.status == 429 or error.status in TRANSIENT or error.reason in (UNREACHABLE, DISCONNECTED)
    )
    if not (harmless and transient):
        return None
    # Spread out, or all clients that were refused together come back together.
    spread = 0.5 + chance.random() / 2
    if error.retry_after is not None:
        return error.retry_after * (0.5 + spread)
    return min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(tries, 10)) * spread


def _lively_socket(address: Any) -> socket.socket:  # a tuple whose shape depends on the family
    """Makes a socket that notices within a minute that the other end is gone, watches included."""
    made = socket.socket(address[0], address[1], address[2])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", 30),
        ("TCP_KEEPINTVL", 10),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 60_000),
    ):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    made.setblocking(False)
    return made
