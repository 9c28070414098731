"""Do plain Python values come back from a checkpoint exactly as they were."""

from __future__ import annotations

import collections
import json
import math
import random
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bireme.runtime.checkpoints.state import plain_values
from bireme.runtime.script.complaints import Complaint

KEYS = st.one_of(st.text(), st.integers(), st.booleans(), st.none(), st.tuples(st.integers(), st.text()))
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.complex_numbers(allow_nan=False),
    st.text(),
    st.binary(max_size=40),
    st.frozensets(st.integers()),
    st.sets(st.text()),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(KEYS, inner),
        st.lists(inner).map(collections.deque),
    ),
    max_leaves=20,
)


def there_and_back(value: Any) -> Any:
    node = json.loads(json.dumps(plain_values.encode(value, ("part",), nothing)))
    return plain_values.decode(node, nothing)


def nothing(*_: object) -> None:
    return None


def same(one: Any, other: Any) -> bool:
    """Equal, and of equal types all the way down: 1, 1.0 and True are not the same."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        pairs = zip(one.items(), other.items(), strict=True)
        return len(one) == len(other) and all(same(a, c) and same(b, d) for (a, b), (c, d) in pairs)
    if isinstance(one, list | tuple | collections.deque):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@given(TREES)
def test_every_tree_comes_back_the_same(tree: Any) -> None:
    assert same(there_and_back(tree), tree)


def test_numbers_that_json_does_not_know_come_back() -> None:
    values = [math.inf, -math.inf, -0.0, 2**63, -(2**100), 10**5000, 5e-324]

    assert there_and_back(values) == values
    assert math.copysign(1, there_and_back(-0.0)) == -1
    assert math.isnan(there_and_back(math.nan))


def test_special_dicts_come_back() -> None:
    ordered: Any = collections.OrderedDict([("b", 1), ("a", 2)])
    ordered._metadata = collections.OrderedDict([("", {"version": 1})])
    value = [collections.Counter("abca"), collections.defaultdict(list, {1: [2]}), ordered]

    back = there_and_back(value)

    assert same(back, value)
    assert back[1][7] == []
    assert back[2]._metadata == ordered._metadata


def test_state_of_the_random_module_comes_back() -> None:
    state = random.Random(3).getstate()

    assert there_and_back(state) == state


@dataclass
class Point:
    x: int


class Number(int):
    pass


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"a": [1, {2: Point(1)}]},
            r"part\['a'\]\[1\]\[2\] is a .*Point, which cannot be saved; save what has",
        ),
        ([lambda: 1], r"part\[0\] is a builtins.function"),
        ((Number(3),), r"part\[0\] is a .*Number"),
        ({Point: 1}, r"part\[<class .*Point'>\] is a builtins.type"),
        (collections.defaultdict(lambda: 3), "defaultdict that makes its values by <lambda>"),
    ],
)
def test_what_cannot_be_saved_is_named_with_its_path_and_type(value: Any, message: str) -> None:
    with pytest.raises(Complaint, match=message):
        there_and_back(value)


def test_a_tree_that_holds_itself_is_refused() -> None:
    tree: list[Any] = []
    tree.append(tree)

    with pytest.raises(Complaint, match="deeper than 200 levels or holds itself"):
        there_and_back(tree)
