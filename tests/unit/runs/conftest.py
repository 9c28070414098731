"""Does every test of runs end the processes that it started."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.runs import run_fixtures


@pytest.fixture(autouse=True)
def _no_child_outlives_its_test() -> Iterator[None]:
    yield
    run_fixtures.kill_all()
