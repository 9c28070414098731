"""Asks the API server: one method for each verb."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import AsyncIterator
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

import msgspec
from msgspec import Struct

from bireme.backends.kubernetes.client.access import Access
from bireme.backends.kubernetes.client.api_errors import ApiError as ApiError
from bireme.backends.kubernetes.client.decoding import Bookmark, Change, Listing, change, decoded, listed
from bireme.backends.kubernetes.client.transport import PATIENCE, Request, Wire

if TYPE_CHECKING:
    from aiohttp import ClientWebSocketResponse

T = TypeVar("T")
Tree = dict[str, Any]
"""An object as JSON gives it, for callers that need more of it than a type declares."""

PAGE = 500
LONGEST_LINE = 1 << 20
"""Bytes of a line of a log: a program may print for hours without ending its line. The rest is left out."""
PATCHES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
FIELD_MANAGER = "bireme"


class Api:
    """A client of one API server; `async with Api(access) as api`.

    Too many requests (429, after the wait that the server names), failures of the server (500, 502, 503, 504)
    and broken connections are tried again for `patience` seconds where that is harmless. A create that was
    sent twice may answer 409 AlreadyExists. JSON patches are not sent twice. All else is an ApiError.

    Nothing is changed or deleted by its name alone (`meaning`), and nothing is ever replaced as a whole.

    Parameters of the query are given by their names: `labelSelector="app=x"`, `dryRun="All"`.
    """

    def __init__(self, access: Access, *, patience: float = PATIENCE) -> None:
        self.access = access
        self._wire = Wire(access, patience)
        self.requests: Counter[str] = self._wire.sent

    async def __aenter__(self) -> Self:
        await self._wire.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._wire.close()

    @overload
    async def get(self, path: str, **query: str) -> Tree: ...
    @overload
    async def get(self, path: str, type: type[T], **query: str) -> T: ...
    async def get(self, path: str, type: Any = dict, **query: str) -> Any:
        """Reads one object."""
        return await self._call(Request("GET", path, query), type)

    @overload
    async def create(self, path: str, body: object, **query: str) -> Tree: ...
    @overload
    async def create(self, path: str, body: object, type: type[T], **query: str) -> T: ...
    async def create(self, path: str, body: object, type: Any = dict, **query: str) -> Any:
        """Creates an object; `path` is that of its resource."""
        return await self._call(Request("POST", path, query, _encoded(body)), type)

    @overload
    async def patch(
        self, path: str, body: object, *, meant: Meant, how: str = "merge", **query: str
    ) -> Tree: ...
    @overload
    async def patch(
        self, path: str, body: object, type: type[T], *, meant: Meant, how: str = "merge", **query: str
    ) -> T: ...
    async def patch(
        self, path: str, body: object, type: Any = dict, *, meant: Meant, how: str = "merge", **query: str
    ) -> Any:
        """Changes an object by a patch: merge, json, strategic, or apply, which also creates.

        Where another object than the one that is meant has the name by now, nothing is changed: the error is
        a 409, the same as where it was changed since.
        """
        if how == "apply":
            query.setdefault("fieldManager", FIELD_MANAGER)
        encoded = _encoded(guarded(body, how, meant))
        request = Request("PATCH", path, query, encoded, PATCHES[how], repeatable=how != "json")
        try:
            return await self._call(request, type)
        except ApiError as error:
            if other_uid(error):
                text = f"another object has this name by now: {error.message}"
                raise ApiError(409, "Conflict", text, error.details, source=error.source) from error
            raise

    @overload
    async def delete(
        self, path: str, *, uid: str, grace: int | None = None, propagation: str = "", **query: str
    ) -> Tree | None: ...
    @overload
    async def delete(
        self,
        path: str,
        type: type[T],
        *,
        uid: str,
        grace: int | None = None,
        propagation: str = "",
        **query: str,
    ) -> T | None: ...
    async def delete(
        self,
        path: str,
        type: Any = dict,
        *,
        uid: str,
        grace: int | None = None,
        propagation: str = "",
        **query: str,
    ) -> Any:
        """Deletes the object with this uid and returns what is left of it, or None if it was gone already.

        An object of the same name with another uid is left alone, and counts as gone. Where the answer is not
        the object but only says that it is gone, a caller that asked for a type gets None too.
        """
        meant = {"uid": Expected(uid).uid}  # An empty uid is an error there, and would mean any object here.
        options: Tree = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": meant}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if propagation:
            options["propagationPolicy"] = propagation
        try:
            answer = await self._call(Request("DELETE", path, query, _encoded(options)), msgspec.Raw)
        except ApiError as error:
            if error.status == 404 or other_uid(error):
                return None
            raise
        if type is not dict and decoded(answer, _Kind).kind == "Status":
            return None
        return decoded(answer, type)

    async def listing(self, path: str, type: type[T], **query: str) -> Listing[T]:
        """Reads all objects of a resource, in pages of one snapshot."""
        found: list[T] = []
        query.setdefault("limit", str(PAGE))
        while True:
            try:
                page = listed(await self._wire.read(Request("GET", path, query)), type)
            except ApiError as error:
                # The snapshot was dropped before we came to its end: the next one is read in one piece.
                if error.status != 410 or not query.get("continue"):
                    raise
                found, query = [], {**query, "continue": "", "limit": "", "resourceVersion": ""}
                continue
            found += page.items
            if not page.more:
                return Listing(tuple(found), page.version)
            # A continued list names its snapshot by the token alone.
            query = {**query, "continue": page.more, "resourceVersion": "", "resourceVersionMatch": ""}

    async def watch(self, path: str, type: type[T], **query: str) -> AsyncIterator[Change[T]]:
        """Follows the changes of a resource until the server ends it; raises ApiError, 410 after a gap."""
        async for each in self.events(path, type, **query):
            if isinstance(each, Change):
                yield each

    async def events(self, path: str, type: type[T], **query: str) -> AsyncIterator[Change[T] | Bookmark]:
        """Follows the changes of a resource and the versions up to which there were none."""
        limit = query.get("timeoutSeconds", "")
        request = Request(
            "GET",
            path,
            {**query, "watch": "true"},
            answer_seconds=float(limit) + 30 if limit else None,
            counted_as="WATCH",
        )
        source = self._wire.source(request)
        async for line in self._stream(request):
            if line:
                yield change(line, type, source)

    async def lines(self, path: str, **query: str) -> AsyncIterator[bytes]:
        """Reads a text, such as a log, line by line and without the line ends; it may go on for ever."""
        async for line in self._stream(Request("GET", path, query, answer_seconds=None), LONGEST_LINE):
            yield line

    async def socket(self, path: str, protocol: str) -> ClientWebSocketResponse:
        """Opens a WebSocket; the query is part of the path, because it may name a thing several times."""
        return await self._wire.socket(Request("GET", path, counted_as="SOCKET"), (protocol,))

    async def _stream(self, request: Request, longest: int = sys.maxsize) -> AsyncIterator[bytes]:
        response = await self._wire.stream(request)
        pieces: list[bytes] = []
        room = longest
        try:
            with self._wire.translated(request):
                async for chunk in response.content.iter_any():
                    first, *others = chunk.split(b"\n")
                    pieces += [first[:room]] if room else []
                    room -= min(room, len(first))
                    if others:
                        yield b"".join(pieces)
                        for line in others[:-1]:
                            yield line[:longest]
                        pieces = [others[-1][:longest]]
                        room = longest - len(pieces[0])
            if any(pieces):
                yield b"".join(pieces)
        finally:
            response.close()

    async def _call(self, request: Request, type: Any) -> Any:
        body = await self._wire.read(request)
        return decoded(body, type, self._wire.source(request))


class _Kind(Struct):
    kind: str = ""


def _encoded(body: object) -> bytes:
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


class Expected(Struct, frozen=True):
    """The object as it was read when the change was decided."""

    uid: str
    version: str = ""
    """Its resourceVersion, where a change made since must not be overwritten."""

    def __post_init__(self) -> None:
        if not self.uid:
            raise ValueError("a change must name the uid of the object that it is meant for")


class ByName(StrEnum):
    """Why a change may go by name alone; each member is a reason, and there are no others."""

    USERS_MANIFEST = "the user's own manifest says what the object of this name should be"
    INSTALLS = "nothing of this name was there a moment ago, and apply creates it"


Meant = Expected | ByName


def guarded(body: Any, how: str, meant: Meant) -> Any:  # Any: JSON
    """A patch that the API server refuses unless it reaches the object that is meant."""
    if isinstance(meant, ByName):
        return body
    marks = {"uid": meant.uid} | ({"resourceVersion": meant.version} if meant.version else {})
    if how == "json":
        # A status subresource ignores the uid, but not the version, which no other object can have.
        first = [
            {"op": "replace", "path": f"/metadata/{name}", "value": value} for name, value in marks.items()
        ]
        return [*first, *body]
    return {**body, "metadata": {**body.get("metadata", {}), **marks}}


def other_uid(error: ApiError) -> bool:
    """Whether a request was refused because another object has the name by now."""
    if error.status == 409:  # The reason Conflict alone may mean other things.
        return any(words in error.message for words in ("UID in the precondition", "UID in precondition"))
    causes = error.details.get("causes")
    if error.status != 422 or not isinstance(causes, list):
        return False
    return any(isinstance(cause, dict) and cause.get("field") == "metadata.uid" for cause in causes)
