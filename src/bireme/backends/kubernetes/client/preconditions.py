"""Names the one object that a change is meant for, so that another object of its name is left alone.

A name in a cluster is free again as soon as its object is gone, and anybody may take it. So no request that
changes or deletes goes by name alone: it carries the uid that was read together with the owner, and the API
server refuses it where the uid differs.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct

from bireme.backends.kubernetes.client.api_errors import ApiError


class Expected(Struct, frozen=True):
    """The object as it was read when the change was decided."""

    uid: str
    version: str = ""
    """Its resourceVersion, where a change that somebody made since must not be overwritten."""

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
    return any(isinstance(one, dict) and one.get("field") == "metadata.uid" for one in causes)
