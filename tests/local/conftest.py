"""What every local test is given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.harness import Bireme, bireme_in


@pytest.fixture
def bireme(tmp_path: Path) -> Iterator[Bireme]:
    with bireme_in(tmp_path) as command:
        yield command
