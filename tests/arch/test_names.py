"""A name has one meaning, a module states its subject, and helpers used once do not become more."""

from __future__ import annotations

import functools
from pathlib import Path

from tools.house.measuring import House, measure

SOURCE = Path(__file__).resolve().parents[2] / "src" / "bireme"

MODULES: dict[str, str] = {}
"""Names of two modules, each with the reason why both keep it."""
CLASSES: dict[str, str] = {}
"""Names of two classes, each with the reason why both keep it."""

USED_ONCE = 0.12
"""The largest share of helpers used once, of all functions: lower it when the tree has fallen well below."""


def test_no_two_modules_have_the_same_name() -> None:
    """Modules of `cli/verbs` and `cli/render` apart, which are named after what they show."""
    assert _house().ambiguous_modules == sorted(MODULES)


def test_no_two_classes_have_the_same_name() -> None:
    assert _house().ambiguous_classes == sorted(CLASSES)


def test_the_first_line_of_a_module_is_a_statement() -> None:
    assert _house().modules_that_ask == []


def test_no_more_helpers_are_used_once_than_before() -> None:
    assert _house().used_once <= USED_ONCE, "merge some into their only callers: `tools.house --folders`"


@functools.cache
def _house() -> House:
    return measure(SOURCE)
