"""Which fields has only this kind: they are read as the kind's own `Options` declare them.

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
from bireme.manifest.text.nodes import describe

Options = dict[str, object]


def read(fields: Fields, declared: type[Struct]) -> Options:
    """Reads every field that the struct declares; those that are absent or wrong are left out."""
    found: Options = {}
    for field in msgspec.structs.fields(declared):
        name = field.encode_name
        if fields.node(name) is None:
            if field.required:
                fields.error(name, "is missing")
            continue
        value = _read(fields, name, field.type)
        if value is not None:
            found[name] = value
    return found


def _read(fields: Fields, name: str, wanted: Any) -> object:  # Any: a type as annotations have it
    wanted = _without_none(wanted)
    origin, arguments = get_origin(wanted) or wanted, get_args(wanted)
    if origin is bool:
        return fields.boolean(name)
    if origin is int:
        return fields.integer(name)
    if origin is float:
        return _number(fields, name)
    if origin is str:
        return _text(fields, name)
    if isinstance(origin, type) and issubclass(origin, Enum):
        return fields.choice(name, [str(each.value) for each in origin])
    if isinstance(origin, type) and issubclass(origin, Struct):
        return _struct(fields.mapping(name), origin)
    if origin is dict:
        return _mapping(fields, name, arguments)
    if origin in (tuple, list):
        return _list(fields, name, arguments[0] if arguments else object)
    return _raw(fields, name)


def _without_none(wanted: Any) -> Any:  # Any: as above
    if get_origin(wanted) not in (Union, types.UnionType):
        return wanted
    some = [each for each in get_args(wanted) if each is not types.NoneType]
    # A field of several types cannot be told apart here: its kind has to look itself.
    return some[0] if len(some) == 1 else object


def _text(fields: Fields, name: str) -> str | None:
    node = fields.node(name)
    # `nprocPerNode: 2` is what people write, although it is a text.
    if node is not None and isinstance(node.value, int) and not isinstance(node.value, bool):
        return str(node.value)
    return fields.text(name)


def _number(fields: Fields, name: str) -> float | None:
    node = fields.node(name)
    if node is None:
        return None
    if isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return float(node.value)
    fields.error(name, f"wanted a number, found {describe(node)}")
    return None


def _struct(fields: Fields | None, declared: type[Struct]) -> Options | None:
    if fields is None:
        return None
    found = read(fields, declared)
    fields.done()
    missing = [each for each in msgspec.structs.fields(declared) if each.required]
    return None if any(each.encode_name not in found for each in missing) else found


def _mapping(fields: Fields, name: str, arguments: tuple[Any, ...]) -> object:  # Any: as above
    if arguments[1:] == (str,):
        return fields.text_map(name)
    return None if fields.mapping(name) is None else _raw(fields, name)


def _list(fields: Fields, name: str, item: Any) -> object:  # Any: as above
    item = _without_none(item)
    if item is str:
        return fields.texts(name)
    if isinstance(item, type) and issubclass(item, Struct):
        found = [_struct(each, item) for each in fields.items(name)]
        return [each for each in found if each is not None]
    if (get_origin(item) or item) is dict:
        return [each.here.plain() for each in fields.items(name)]
    node = fields.node(name)
    if node is not None and not isinstance(node.value, list):
        fields.error(name, f"wanted a list, found {describe(node)}")
        return None
    return _raw(fields, name)


def _raw(fields: Fields, name: str) -> object:
    value: object = fields.raw(name)
    return value
