"""Does every job come to a right end over a million steps."""

from __future__ import annotations

import pytest

from tests.simulation.__main__ import hammer


@pytest.mark.soak
def test_a_million_steps_break_no_rule() -> None:
    assert hammer(first=0, seeds=10_000, steps=1_000_000) == 0
