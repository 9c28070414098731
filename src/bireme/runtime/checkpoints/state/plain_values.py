"""Turns a tree of plain Python values into JSON and back, exactly and without running code.

Numbers, strings, lists and None stand for themselves. Everything else is an object with one tag:
`{"d": [[key, value], ...]}` is a dict, which keeps its order and may have keys of any plain type.
Arrays stay outside: the tree names them by number, `{"a": 3}`.
"""

from __future__ import annotations

import base64
import collections
import math
import struct
from typing import Any, Callable, Dict, List, Optional, Tuple

from ...script.complaints import Complaint

Node = Any  # what `json` reads and writes
Path = Tuple[Any, ...]  # the keys that lead to a value
Take = Callable[[Any, Path], Optional[Node]]

DEEPEST = 200
_FACTORIES: Dict[str, Callable[[], Any]] = {
    "list": list,
    "dict": dict,
    "set": set,
    "int": int,
    "float": float,
    "str": str,
}


def encode(value: Any, path: Path, take: Take) -> Node:
    """Makes a node of a value; `take` makes nodes of what is not plain, or answers None."""
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return value if -(2**63) <= value < 2**63 else {"i": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"f": struct.pack(">d", value).hex()}
    if len(path) > DEEPEST:
        raise Complaint(f"{shown(path[:4])}... is nested deeper than {DEEPEST} levels or holds itself")
    encoder = _ENCODERS.get(kind)
    if encoder is not None:
        return encoder(value, path, take)
    node = take(value, path)
    if node is None:
        raise Complaint(
            f"{shown(path)} is a {kind.__module__}.{kind.__qualname__}, which cannot be saved",
            "save what has state_dict(), arrays, numbers, strings, bytes, and dicts, lists, sets of them",
        )
    return node


def decode(node: Node, give: Callable[[Node], Any]) -> Any:
    """Makes the value of a node; `give` makes the values of nodes that `take` made."""
    if type(node) is list:
        return [decode(item, give) for item in node]
    if type(node) is not dict:
        return node
    tag = next(iter(node))
    decoder = _DECODERS.get(tag)
    return give(node) if decoder is None else decoder(node, give)


def shown(path: Path) -> str:
    """The path as one would write it in Python: model['layers'][0]."""
    return str(path[0]) + "".join(f"[{key!r}]" for key in path[1:]) if path else "the value"


def _items(value: Any, path: Path, take: Take) -> List[Node]:
    return [encode(item, (*path, number), take) for number, item in enumerate(value)]


def _pairs(value: Any, path: Path, take: Take) -> List[Node]:
    pairs = []
    for key, item in value.items():
        place = (*path, key)
        plain = type(key) is str or type(key) is int
        pairs.append([key if plain else encode(key, place, take), encode(item, place, take)])
    return pairs


def _ordered(value: Any, path: Path, take: Take) -> Node:
    node = {"o": _pairs(value, path, take)}
    # torch keeps the versions of a module's layers here, and asks for them when it loads.
    metadata = getattr(value, "_metadata", None)
    if metadata is not None:
        node["m"] = encode(metadata, (*path, "_metadata"), take)
    return node


def _defaulting(value: Any, path: Path, take: Take) -> Node:
    factory = value.default_factory
    name = "" if factory is None else getattr(factory, "__name__", "?")
    if name and _FACTORIES.get(name) is not factory:
        raise Complaint(
            f"{shown(path)} is a defaultdict that makes its values by {name}, which cannot be saved",
            "save dict(...) of it",
        )
    return {"dd": _pairs(value, path, take), "by": name}


def _sorted(value: Any, path: Path, take: Take) -> List[Node]:
    # A set's order differs between processes; the same state should give the same bytes.
    return sorted(_items(value, path, take), key=repr)


_ENCODERS: Dict[type, Callable[[Any, Path, Take], Node]] = {
    list: _items,
    dict: lambda value, path, take: {"d": _pairs(value, path, take)},
    tuple: lambda value, path, take: {"t": _items(value, path, take)},
    set: lambda value, path, take: {"s": _sorted(value, path, take)},
    frozenset: lambda value, path, take: {"fs": _sorted(value, path, take)},
    complex: lambda value, path, take: {"c": struct.pack(">dd", value.real, value.imag).hex()},
    bytes: lambda value, path, take: (
        {"b": base64.b64encode(value).decode("ascii")} if len(value) < 1024 else take(value, path)
    ),
    collections.OrderedDict: _ordered,
    collections.Counter: lambda value, path, take: {"n": _pairs(value, path, take)},
    collections.defaultdict: _defaulting,
    collections.deque: lambda value, path, take: {"q": _items(value, path, take), "of": value.maxlen},
}


def _read_pairs(pairs: List[Node], give: Callable[[Node], Any]) -> List[Tuple[Any, Any]]:
    return [(decode(key, give), decode(value, give)) for key, value in pairs]


def _read_ordered(node: Node, give: Callable[[Node], Any]) -> Any:
    made: Any = collections.OrderedDict(_read_pairs(node["o"], give))
    if "m" in node:
        made._metadata = decode(node["m"], give)
    return made


_DECODERS: Dict[str, Callable[[Node, Callable[[Node], Any]], Any]] = {
    "i": lambda node, give: int(node["i"], 16),
    "f": lambda node, give: struct.unpack(">d", bytes.fromhex(node["f"]))[0],
    "c": lambda node, give: complex(*struct.unpack(">dd", bytes.fromhex(node["c"]))),
    "b": lambda node, give: base64.b64decode(node["b"]),
    "d": lambda node, give: dict(_read_pairs(node["d"], give)),
    "t": lambda node, give: tuple(decode(item, give) for item in node["t"]),
    "s": lambda node, give: {decode(item, give) for item in node["s"]},
    "fs": lambda node, give: frozenset(decode(item, give) for item in node["fs"]),
    "o": _read_ordered,
    "n": lambda node, give: collections.Counter(dict(_read_pairs(node["n"], give))),
    "dd": lambda node, give: collections.defaultdict(
        _FACTORIES.get(node["by"]), _read_pairs(node["dd"], give)
    ),
    "q": lambda node, give: collections.deque((decode(item, give) for item in node["q"]), node["of"]),
}
