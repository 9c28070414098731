"""Reads the fields that only one kind has, as the kind's own `Options` declare them.

A kind says what its fields are by the types of a struct; here they are read with places and diagnostics, so
that a new kind needs no reader of its own. The result has the names of the manifest, as `Job.options` wants.
"""

from __future__ import annotations

import types
from enum import Enum
from typing import Any, Union, get_args, get_origin

import msgspec
from msgspec import Struct

from bireme.manifest.diagnostics import Fields
from bireme.manifest.text.nodes import Node, describe

Options = dict[str, object]


def read(fields: Fields, declared: type[Struct]) -> Options:
    """Reads every field that the struct declares; those that are absent or wrong are left out."""
    found: Options = {}
    for field in msgspec.structs.fields(declared):
        name = field.encode_name
        node = fields.node(name)
        if node is None:
            if field.required:
                fields.error(name, "is missing")
            continue
        value = _value(fields, name, node, _without_none(field.type))
        if value is not None:
            found[name] = value
    return found


def _value(fields: Fields, name: str, node: Node, wanted: Any) -> object:  # Any: a type of an annotation
    origin, arguments = get_origin(wanted) or wanted, get_args(wanted)
    if origin is bool:
        return fields.boolean(name)
    if origin is int:
        return fields.integer(name)
    if origin is float:
        if isinstance(node.value, int | float) and not isinstance(node.value, bool):
            return float(node.value)
        fields.error(name, f"wanted a number, found {describe(node)}")
        return None
    if origin is str:
        # `nprocPerNode: 2` is what people write, although it is a text.
        is_integer = isinstance(node.value, int) and not isinstance(node.value, bool)
        return str(node.value) if is_integer else fields.text(name)
    if isinstance(origin, type) and issubclass(origin, Enum):
        return fields.choice(name, [str(each.value) for each in origin])
    if isinstance(origin, type) and issubclass(origin, Struct):
        return _struct(fields.mapping(name), origin)
    if origin is dict and arguments[1:] == (str,):
        return fields.text_map(name)
    if origin is dict and fields.mapping(name) is None:
        return None
    if origin in (tuple, list):
        item = _without_none(arguments[0] if arguments else object)
        if item is str:
            return fields.texts(name)
        if isinstance(item, type) and issubclass(item, Struct):
            found = [_struct(each, item) for each in fields.items(name)]
            return [each for each in found if each is not None]
        if (get_origin(item) or item) is dict:
            return [each.here.plain() for each in fields.items(name)]
        if not isinstance(node.value, list):
            fields.error(name, f"wanted a list, found {describe(node)}")
            return None
    plain: object = node.plain()
    return plain


def _without_none(wanted: Any) -> Any:  # Any: as above
    if get_origin(wanted) not in (Union, types.UnionType):
        return wanted
    some = [each for each in get_args(wanted) if each is not types.NoneType]
    # A field of several types cannot be told apart here: its kind has to look itself.
    return some[0] if len(some) == 1 else object


def _struct(fields: Fields | None, declared: type[Struct]) -> Options | None:
    if fields is None:
        return None
    found = read(fields, declared)
    fields.done()
    missing = [each for each in msgspec.structs.fields(declared) if each.required]
    return None if any(each.encode_name not in found for each in missing) else found
