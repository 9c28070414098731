"""What the tests of records are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.records.recorder_fixtures import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "metrics")
