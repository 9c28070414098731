"""Are a replica's limits real, and is their excess named."""

from __future__ import annotations

import pytest

from bireme.backends.local.cgroups import Cgroups
from tests.local.harness import Bireme

needs_cgroups = pytest.mark.skipif(
    Cgroups.find() is None, reason="no control group can be written on this machine"
)


@needs_cgroups
def test_a_rank_that_eats_past_its_memory_limit_is_reported_with_limit_and_use(bireme: Bireme) -> None:
    bireme.write(
        "eat.py",
        "import os\nos.environ['RANK']\nfood = []\nwhile True:\n    food.append(bytearray(1 << 20))\n",
    )

    done = bireme("run", "eat.py", "--memory", "100Mi", "--retries", "0")

    assert done.returncode == 1
    assert "out of memory" in done.stderr
    assert "100 MiB" in done.stderr
