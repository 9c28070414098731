"""Which warm interpreters serve a program, and which ones end for the sake of memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bireme.core.machine.warm_starts import Needs, Warm, serving, surplus

TORCH = Warm("torch", frozenset({"torch"}), frozenset({"torch", "numpy"}))
LIGHTNING = Warm("lightning", frozenset({"torch", "lightning"}), frozenset({"torch", "numpy", "lightning"}))
TENSORFLOW = Warm("tensorflow", frozenset({"tensorflow"}), frozenset({"tensorflow", "numpy"}))
ALL = (TENSORFLOW, TORCH, LIGHTNING)


def test_nothing_is_loaded_that_a_program_does_not_import() -> None:
    assert serving(Needs(frozenset({"torch"})), ALL) == ("torch",)
    assert serving(Needs(frozenset({"tqdm"})), ALL) == ()


def test_the_one_that_has_most_of_what_is_needed_is_the_best() -> None:
    assert serving(Needs(frozenset({"torch", "lightning", "tqdm"})), ALL) == ("lightning", "torch")


def test_part_of_what_is_needed_is_better_than_nothing() -> None:
    assert serving(Needs(frozenset({"torch", "lightning"})), (TENSORFLOW, TORCH)) == ("torch",)


def test_what_only_a_function_imports_counts_where_nothing_else_serves() -> None:
    both = Needs(frozenset({"torch"}), frozenset({"tensorflow"}))

    assert serving(both, ALL) == ("torch",)
    assert serving(both, (TENSORFLOW,)) == ("tensorflow",)


def test_one_without_packages_serves_nobody() -> None:
    assert serving(Needs(frozenset({"torch"})), (Warm("empty", frozenset()),)) == ()


def test_the_least_recently_used_ends_first() -> None:
    found = [Warm(name, frozenset(), memory=300, used=used) for name, used in (("b", 2), ("a", 1), ("c", 3))]

    assert surplus(found, 900) == ()
    assert surplus(found, 899) == ("a",)
    assert surplus(found, 300) == ("a", "b")
    assert surplus(found, 0) == ("a", "b", "c")


def test_one_with_ranks_is_left_alone() -> None:
    found = [
        Warm("busy", frozenset(), memory=300, used=1, is_idle=False),
        Warm("idle", frozenset(), memory=300, used=2),
    ]

    assert surplus(found, 0) == ("idle",)


@given(
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 9), st.booleans()), max_size=6), st.integers(0, 300)
)
def test_what_stays_fits_or_is_in_use(zygotes: list[tuple[int, int, bool]], limit: int) -> None:
    found = [
        Warm(str(number), frozenset(), memory=memory, used=used, is_idle=idle)
        for number, (memory, used, idle) in enumerate(zygotes)
    ]

    ending = set(surplus(found, limit))

    staying = [one for one in found if one.name not in ending]
    assert sum(one.memory for one in staying) <= limit or not any(one.is_idle for one in staying)
    assert all(one.is_idle for one in found if one.name in ending)
