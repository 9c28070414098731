"""Are a replica's limits real, and is their excess named."""

from __future__ import annotations

import os

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


@needs_cgroups
def test_ranks_on_a_busy_machine_count_as_more_than_one_program(bireme: Bireme) -> None:
    """All groups of ranks lie in one, which as it is made weighs no more than a single terminal."""
    look = """
import glob
lines = [line.strip().split(":", 2) for line in open("/proc/self/cgroup")]
for _, names, path in lines:
    if "cpu" in names.split(",") or not names:
        for base in ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup"):
            for name in ("cpu.shares", "cpu.weight"):
                for file in glob.glob(f"{base}{path.rpartition('/')[0]}/{name}"):
                    print("weight", open(file).read())
"""
    bireme.write("look.py", look)

    done = bireme("run", "look.py", "--name", "look")

    found = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("weight")]
    assert done.returncode == 0, done.stderr
    assert found, done.stdout
    one = 1024 if found[0] >= 1024 else 100
    assert found[0] >= one * min(os.cpu_count() or 1, 100)
