"""A manifest before its kind is known: a tree of values that know where they stand."""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import Struct

_PLAIN_KEY = re.compile(r"[a-z][A-Za-z0-9]*")
_MOST_SHOWN = 60


class Mark(Struct, frozen=True, gc=False):
    """A place in a file; both numbers count from 1."""

    line: int
    column: int


class Node(Struct, frozen=True, gc=False):
    """A value with its place; an entry of a mapping also knows where its key stands."""

    value: dict[str, Node] | list[Node] | str | int | float | bool | None
    mark: Mark
    key_mark: Mark | None = None

    def plain(self) -> Any:  # Any: JSON has no better type
        """Returns the data without places, as a JSON reader would; every call makes new containers.

        The depth of recursion is bounded by the limit on nesting that holds for every tree.
        """
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


class Document(Struct, frozen=True):
    """One document of a file."""

    file: str
    root: Node


def describe(node: Node) -> str:
    """Names a value for people, such as `the text "2"` or `a list`."""
    match node.value:
        case None:
            return "nothing"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case bool() as value:
            return f"the boolean {str(value).lower()}"
        case str() as value:
            return f"the text {quoted(value)}"
        case value:
            return f"the number {value}"


def quotes_hint(node: Node) -> str:
    """Says what helps where a text is wanted and something else is found."""
    if isinstance(node.value, bool):
        return "put it in quotes: YAML reads yes, no, on, off, y and n as booleans too"
    return "put it in quotes" if isinstance(node.value, int | float) else ""


def quoted(text: str) -> str:
    """Puts a text in double quotes, on one line and cut to a length that suits a message."""
    if len(text) > _MOST_SHOWN:
        text = text[: _MOST_SHOWN - 3] + "..."
    return json.dumps(text, ensure_ascii=False)


def field_path(parent: str, key: str | int) -> str:
    """Names an entry of a mapping or a list, such as `spec.tfReplicaSpecs[Worker].containers[0]`.

    Names of fields begin with a small letter and follow a dot. Everything else is a key that the user
    chose (a role, a resource, a label) and stands in brackets.
    """
    if isinstance(key, int):
        return f"{parent}[{key}]"
    if _PLAIN_KEY.fullmatch(key) and len(key) <= _MOST_SHOWN:
        return f"{parent}.{key}" if parent else key
    return f"{parent}[{quoted(key)[1:-1]}]"
