"""Makes hostile inputs of valid samples: changed bytes, changed trees, and plain nonsense, all by a seed."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

# Any: a tree is whatever JSON holds.
Tree = Any
Encode = Callable[[Tree], bytes]

DEPTH = 100_000
"""Levels of the deepest nesting: far beyond what a recursive reader or the C stack survives."""
_DEEP_ENOUGH = 5_000
"""Levels of nesting in the middle of a tree, where many inputs have some."""
_DEEP_LIST, _DEEP_MAP = "@deep list@", "@deep map@"
_DEEP = {
    json.dumps(_DEEP_LIST).encode(): b"[" * _DEEP_ENOUGH + b"]" * _DEEP_ENOUGH,
    json.dumps(_DEEP_MAP).encode(): b'{"a":' * _DEEP_ENOUGH + b"1" + b"}" * _DEEP_ENOUGH,
}

_MOST = 1_000
"""Items or letters of what is made longer: many changes of one place must not fill the memory."""

VALUES: tuple[Tree, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        255,
        2**31,
        2**32,
        2**53 + 1,
        2**60,
        2**63 - 1,
        2**63,
        2**64,
        -(2**63) - 1,
    ),
    *(10**30, 10**400, -(10**400), 0.5, -0.0, 1e30, 1e308, -1e308, 5e-324),
    *(float("nan"), float("inf"), float("-inf")),
    *(
        "",
        " ",
        "0",
        "-1",
        "1_0",
        "٣",
        "²",
        "1e999",
        "nan",
        "x" * 5000,
        "9" * 5000,
        "\x00",
        "\ud800",
        "\x1b[2J",
    ),
    *("../../x", "/etc/passwd", "a/b", ".", "..", "\n", "\r\n", "ﷺ", "null", "2026-01-31T12:00:00Z"),
    *("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-99-99", "=", "%s", "{}", "\u202e"),
    *([], {}, [[]], {"": {}}, [None], [0] * 300, {str(number): number for number in range(50)}),
)
_LINES = (
    b"",
    b"\n",
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\r",
    b"\x1b]0;x\x07",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
)
_NUMBERS = (
    b"\xff" * 4,
    b"\xff" * 8,
    b"\x00" * 8,
    b"\x7f" + b"\xff" * 7,
    b"\x00" * 7 + b"\x10",
    b"9" * 400,
    b"-1",
)


def inputs(seed: str, samples: tuple[bytes, ...], trees: tuple[Tree, ...], encode: Encode) -> Iterator[bytes]:
    """Yields hostile inputs without end: the same ones for the same seed and samples."""
    chance = random.Random(seed)
    while True:
        kind = chance.random()
        if trees and kind < 0.6:
            yield _of_tree(chance, chance.choice(trees), encode)
        elif samples and kind < 0.95:
            yield _changed_bytes(chance, chance.choice(samples), samples)
        else:
            yield chance.randbytes(chance.choice((0, 1, 3, 8, 40, 400)))


def plain_json(tree: Tree) -> bytes:
    """Writes a tree as JSON, with what Python adds to it: NaN, infinity and lone surrogates."""
    return json.dumps(tree).encode("ascii")


def _of_tree(chance: random.Random, tree: Tree, encode: Encode) -> bytes:
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        tree = _changed(chance, tree)
    if chance.random() < 0.005:
        tree = _replaced(chance, tree, chance.choice((_DEEP_LIST, _DEEP_MAP)))
    data = encode(tree)
    for written, deep in _DEEP.items():
        data = data.replace(written, deep)
    return _changed_bytes(chance, data, (data,)) if chance.random() < 0.1 else data


def _changed(chance: random.Random, tree: Tree) -> Tree:
    """Changes one place of a tree: another value, a missing one, one more, or one from elsewhere in it."""
    kind = chance.random()
    if kind < 0.6:
        return _replaced(chance, tree, chance.choice(VALUES))
    if kind < 0.8:
        return _replaced(chance, tree, chance.choice(list(_walked(tree))))
    return _at(chance, tree, lambda node: _resized(chance, node))


def _replaced(chance: random.Random, tree: Tree, value: Tree) -> Tree:
    return _at(chance, tree, lambda _: value)


def _resized(chance: random.Random, node: Tree) -> Tree:
    if isinstance(node, dict) and node:
        gone = chance.choice(list(node))
        kept = {key: value for key, value in node.items() if key != gone}
        return kept if chance.random() < 0.5 else {**kept, chance.choice(("", "x", gone + "x")): node[gone]}
    if isinstance(node, list) and 0 < len(node) < _MOST:
        return chance.choice(([*node, *node], node[1:], node[:-1], node[::-1]))
    if isinstance(node, str) and len(node) < _MOST:
        return chance.choice((node * 50, node[:-1], node + "\x00", node.upper(), [node], {node: node}))
    if (isinstance(node, int) and abs(node) < 10**_MOST) or (isinstance(node, float) and math.isfinite(node)):
        return chance.choice((-node, repr(node), [node], node * 10**12, bool(node)))
    return [node]


def _at(chance: random.Random, tree: Tree, change: Callable[[Tree], Tree]) -> Tree:
    """Copies a tree with one node changed, any of them with the same chance."""
    chosen = chance.randrange(sum(1 for _ in _walked(tree)))
    counter = iter(range(chosen + 1))

    def copied(node: Tree) -> Tree:
        if next(counter, None) == chosen:
            return change(node)
        if isinstance(node, dict):
            return {key: copied(value) for key, value in node.items()}
        if isinstance(node, list):
            return [copied(value) for value in node]
        return node

    return copied(tree)


def _walked(tree: Tree) -> Iterator[Tree]:
    """Every node, in the order in which `_at` comes by."""
    yield tree
    for child in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _walked(child)


def _changed_bytes(chance: random.Random, data: bytes, samples: tuple[bytes, ...]) -> bytes:
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(6)
        if kind == 0:
            data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
        elif kind == 1:
            data = data[:at]
        elif kind == 2:
            other = chance.choice(samples)
            data = data[:at] + other[chance.randrange(len(other) + 1) :]
        elif kind == 3:
            data = data[:at] + chance.choice(_LINES + _NUMBERS) + data[at:]
        elif kind == 4:
            new = chance.choice(_NUMBERS)
            data = data[:at] + new + data[at + len(new) :]
        else:
            end = min(len(data), at + chance.randrange(1, 40))
            data = data[:at] + data[end:] + data[at:end]
        data = data[: 1 << 19]
    return data
