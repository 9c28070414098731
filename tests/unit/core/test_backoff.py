"""How long is waited before something that failed is tried again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bireme.core.restarts import backoff


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(0, 0.0), (1, 0.0), (2, 1.0), (3, 2.0), (4, 4.0), (9, 128.0), (10, 256.0), (11, 300.0), (12, 300.0)],
)
def test_a_replacement_waits_twice_as_long_each_time_up_to_five_minutes(
    failures: int, seconds: float
) -> None:
    assert backoff.replacement(failures) == seconds


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(0, 0.0), (1, 0.0), (2, 10.0), (3, 20.0), (4, 40.0), (6, 160.0), (7, 300.0), (8, 300.0)],
)
def test_a_restart_in_place_waits_as_long_as_a_kubelet_does(failures: int, seconds: float) -> None:
    assert backoff.in_place(failures) == seconds


@given(st.integers(min_value=0, max_value=10**9))
def test_no_number_of_failures_waits_longer_than_the_longest(failures: int) -> None:
    assert 0.0 <= backoff.replacement(failures) <= backoff.replacement(failures + 1) <= backoff.LONGEST
    assert backoff.in_place(failures) <= backoff.in_place(failures + 1) <= backoff.LONGEST
