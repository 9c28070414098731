"""Decodes the bytes that an API server sends straight into our types."""

from __future__ import annotations

import logging
import re
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from bireme.backends.kubernetes.client.api_errors import UNREADABLE, ApiError, RequestOrigin, refusal
from bireme.model.decode_errors import DAMAGED

T = TypeVar("T")
MOST_LEVELS = 200
"""Of nesting in an object; those of Kubernetes itself have about twenty."""
_TOO_DEEP = b'"bireme.io: nested too deeply"'
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)
log = logging.getLogger(__name__)


class Change(Struct, Generic[T], frozen=True):
    """What a watch tells: the type is ADDED, MODIFIED or DELETED."""

    type: str
    object: T


class Bookmark(Struct, frozen=True):
    """A watch has told everything up to this version."""

    version: str


class Listing(Struct, Generic[T], frozen=True):
    """The objects of a resource as they were at one version."""

    items: tuple[T, ...]
    version: str
    more: str = ""
    """Where the next page begins; empty at the end."""


def decoded(body: bytes | Raw, type: Any, source: RequestOrigin | None = None) -> Any:
    """Decodes an object; an answer that does not fit the type is an ApiError."""
    if type is Raw:
        return Raw(body)
    try:
        return _decoders(type).item.decode(body)
    except DAMAGED as error:
        start = bytes(body)[:80].decode(errors="replace")
        message = f"the answer is not what was expected ({error}): {start}"
        raise ApiError(0, UNREADABLE, message, source=source) from error


def listed(body: bytes, type: type[T]) -> Listing[T]:
    """Decodes a page of a list; an object that does not fit the type is left out, and logged."""
    try:
        page = _decoders(type).page.decode(body)
        items = tuple(page.items or ())
    except DAMAGED:
        page = decoded(shallow(body), _RawPage)
        items = tuple(item for each in page.items or () for item in _fitting(each, type))
    return Listing(items, page.metadata.resourceVersion, page.metadata.continue_)


def change(line: bytes, type: type[T], source: RequestOrigin) -> Change[T] | Bookmark:
    """Decodes a line of a watch; an error in it is raised, what does not fit the type is only logged."""
    # Bookmarks and errors hold other objects than T. The type comes first, so looking at it costs nothing.
    if line.startswith(_CHANGES):
        try:
            return _decoders(type).change.decode(line)
        except DAMAGED:
            pass
    event = decoded(shallow(line), _RawEvent, source)
    if event.type == "ERROR":
        status = decoded(event.object, _Code, source)
        raise refusal(status.code, bytes(event.object), source)
    if event.type != "BOOKMARK":
        for item in _fitting(event.object, type):
            return Change(event.type, item)
    return Bookmark(decoded(event.object, _Head, source).metadata.resourceVersion)


class _HeadMeta(Struct):
    name: str = ""
    namespace: str = ""
    resourceVersion: str = ""


class _Head(Struct):
    metadata: _HeadMeta = msgspec.field(default_factory=_HeadMeta)


class _Code(Struct):
    code: int = 0


class _RawEvent(Struct):
    type: str
    object: Raw


class _ListMeta(Struct):
    resourceVersion: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(Struct, Generic[T]):
    items: list[T] | None = None
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


class _RawPage(_Page[Raw]):
    pass


_CHANGES = (b'{"type":"ADDED"', b'{"type":"MODIFIED"', b'{"type":"DELETED"')


def _fitting(item: Raw, type: type[T]) -> list[T]:
    """The object, or nothing if it does not fit: one odd object must not hide all others."""
    try:
        if _TOO_DEEP in bytes(item):
            raise msgspec.ValidationError(f"it has more than {MOST_LEVELS} levels")
        return [_decoders(type).item.decode(item)]
    except DAMAGED as error:
        try:
            head = _decoders(_Head).item.decode(item).metadata
        except DAMAGED:
            head = _HeadMeta()
        log.warning(
            "An object is left out, because it cannot be read: %s.",
            error,
            extra={"namespace": head.namespace, "name_": head.name},
        )
        return []


def shallow(body: bytes) -> bytes:
    """Replaces whatever is nested too deeply for a decoder by a mark, and leaves the rest as it is.

    Anybody who may create a job can nest its fields as deeply as the API server allows, which is ten times
    what a decoder survives. That must cost its own job, and not all others on the same page.
    """
    if body.count(b"[") + body.count(b"{") <= MOST_LEVELS:
        return body
    kept, level, start = [], 0, 0
    for token in _BRACKETS.finditer(body):
        if token[0] in b"[{":
            level += 1
            if level == MOST_LEVELS + 1:
                kept += [body[start : token.start()], _TOO_DEEP]
        elif token[0] in b"]}":
            if level == MOST_LEVELS + 1:
                start = token.end()
            level -= 1
    return b"".join([*kept, body[start:]]) if kept and level <= MOST_LEVELS else body


class _Decoders:
    """The decoders of one type, made once: that takes longer than decoding."""

    def __init__(self, type: Any) -> None:
        page: Any = _Page  # a generic that is given its type at run time
        change: Any = Change
        self.item: msgspec.json.Decoder[Any] = msgspec.json.Decoder(type)
        self.page: msgspec.json.Decoder[_Page[Any]] = msgspec.json.Decoder(page[type])
        self.change: msgspec.json.Decoder[Change[Any]] = msgspec.json.Decoder(change[type])


def _decoders(type: Any) -> _Decoders:
    found = _KNOWN.get(type)
    if found is None:
        found = _KNOWN[type] = _Decoders(type)
    return found


_KNOWN: dict[Any, _Decoders] = {}
