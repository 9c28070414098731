"""What has ended is deleted in safety: beside other commands, and never what another run goes on from."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from bireme.core.machine.retention import Limits
from bireme.model.status import ConditionType, Status
from bireme.runs import directory
from bireme.runs.directory import RunDirectory
from bireme.sdk.local import prune
from tests.unit.runs.run_fixtures import context, desired, ended, make_run

NOW = 1_800_000_000.0


def _ended(home: Path, name: str) -> RunDirectory:
    run, lock = make_run(home, name)
    run.write_status(ended())
    lock.close()
    return run


def _continued(home: Path, origin: str, status: Status) -> None:
    """A run that was started from another one."""
    start = replace(context(), environment={"BIREME_FROM": origin})
    run, lock = directory.create(home, desired("continued"), start)
    run.write_status(status)
    lock.close()


def test_a_run_that_cannot_be_held_is_left_and_keeps_none_of_the_others(tmp_path: Path) -> None:
    broken, other = _ended(tmp_path, "broken"), _ended(tmp_path, "other")
    (broken.path / "lock").unlink()
    (broken.path / "lock").mkdir()

    said = prune.swept(tmp_path, Limits(runs=0), NOW)

    assert "removed 1 ended job" in said
    assert (broken.exists(), other.exists()) == (True, False)


def test_two_sweeps_at_once_remove_each_run_once(tmp_path: Path) -> None:
    for number in range(30):
        _ended(tmp_path, f"run-{number}")
    found = prune.ended(tmp_path)
    removed: list[str] = []
    barrier = threading.Barrier(4)

    def sweep() -> None:
        barrier.wait()
        removed.extend(one.id for one in prune.removed(tmp_path, found))

    threads = [threading.Thread(target=sweep) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    assert sorted(removed) == sorted(one.id for one in found)


@pytest.mark.parametrize("status", [Status(), ended(ConditionType.FAILED)], ids=["active", "failed"])
def test_a_run_that_another_one_goes_on_from_is_needed_however_its_home_is_spelled(
    tmp_path: Path, status: Status
) -> None:
    home, link = tmp_path / "home", tmp_path / "link"
    origin = _ended(home, "origin")
    link.symlink_to(home)
    _continued(home, f"{link / origin.path.relative_to(home)}/checkpoints@120", status)

    needed = {one.id: one.is_needed for one in prune.ended(home)}

    assert needed["origin#1"] is True


def test_a_run_whose_successor_has_succeeded_is_not_needed(tmp_path: Path) -> None:
    origin = _ended(tmp_path, "origin")
    _continued(tmp_path, str(origin.path), ended())

    assert [one.is_needed for one in prune.ended(tmp_path)] == [False, False]
