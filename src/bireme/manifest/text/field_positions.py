"""Finds the place of a field that only its path names, and gives plain data a place."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from bireme.errors import BadManifest
from bireme.manifest.diagnostics import Diagnostic
from bireme.manifest.text.nodes import Document, Mark, Node, field_path

MOST_LEVELS = 100

_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")


def locate(root: Node, path: str) -> Mark:
    """Returns the place of a field, or of the innermost part of its path that is there.

    Keys are found whatever their case: a path names a role as its kind does, not as the manifest did.
    """
    found = root
    for step in _STEP.finditer(path):
        key = step[1] or step[2] or ""
        following: Node | None = None
        if isinstance(found.value, list) and key.isdecimal() and int(key) < len(found.value):
            following = found.value[int(key)]
        elif isinstance(found.value, dict):
            alike = (name for name in found.value if name.lower() == key.lower())
            following = found.value.get(key if key in found.value else next(alike, key))
        if following is None:
            return found.key_mark or found.mark
        found = following
    return found.mark


def document_of(manifest: Mapping[str, object], file: str, mark: Mark) -> Document:
    """Makes a document of plain data, all of it at one place."""
    return Document(file, _node(manifest, mark, file, "", 0))


def _node(value: object, mark: Mark, file: str, path: str, level: int) -> Node:
    if level > MOST_LEVELS:
        _refuse(file, mark, path, f"more than {MOST_LEVELS} levels are not read")
    match value:
        case str() | bool() | int() | float() | None:
            return Node(value, mark)
        case Mapping():
            for key in value:
                if not isinstance(key, str):
                    _refuse(file, mark, path, f"wanted texts as keys, found {key!r}")
            return Node(
                {
                    key: _node(each, mark, file, field_path(path, key), level + 1)
                    for key, each in value.items()
                },
                mark,
            )
        case Sequence():
            items = enumerate(value)
            return Node(
                [_node(each, mark, file, field_path(path, at), level + 1) for at, each in items], mark
            )
        case _:
            _refuse(file, mark, path, f"a {type(value).__name__} is not something that a manifest can hold")
    raise AssertionError("unreachable")


def _refuse(file: str, mark: Mark, path: str, text: str) -> None:
    raise BadManifest.of([Diagnostic(file, mark.line, mark.column, path, text)])
