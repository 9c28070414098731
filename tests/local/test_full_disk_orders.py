"""A job can be stopped and removed although the disk of its home is full."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bireme.model.status import Phase
from tests.local.harness import Bireme, bireme_in, until
from tests.local.small_disk import Disk, small_disk

ENDLESS = """
import time
while True:
    print("x" * 1000, flush=True)
    time.sleep(0.001)
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "home") as found:
        yield found


@pytest.fixture
def bireme(tmp_path: Path, disk: Disk) -> Iterator[Bireme]:
    with bireme_in(tmp_path, disk.within, disk.path) as command:
        yield command
        disk.empty()


@pytest.fixture
def filled(bireme: Bireme, disk: Disk) -> Bireme:
    """A job whose rank prints without end, and a disk without room."""
    bireme.write("endless.py", ENDLESS)
    done = bireme("run", "endless.py", "--name", "endless", "--detach")
    assert done.returncode == 0, done.stderr
    until(lambda: bireme.status("endless").phase is Phase.RUNNING, "the job is seen running")
    disk.fill()
    return bireme


def test_a_job_is_stopped_and_goes_on_when_there_is_room(filled: Bireme, disk: Disk) -> None:
    stopped = filled("stop", "endless")

    assert stopped.returncode == 0, stopped.stderr
    assert filled.ranks("endless") == {}
    disk.empty()
    assert filled("resume", "endless").returncode == 0
    until(lambda: filled.status("endless").phase is Phase.RUNNING, "the job runs again")


def test_a_job_that_has_filled_the_disk_is_removed(filled: Bireme, disk: Disk) -> None:
    ranks = filled.ranks("endless")

    removed = filled("rm", "--yes", "endless")

    assert removed.returncode == 0, removed.stderr
    assert not any(Path(f"/proc/{pid}").exists() for pid in ranks.values())
    assert not (disk.path / "runs/endless/1").exists()
