"""Does a folder keep its owner: in a process that was forked, when somebody removes it, and beside others?"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from pathlib import Path

import pytest

from bireme.runtime.checkpoints.consensus import Patience
from bireme.runtime.checkpoints.manager import Checkpoints, Keep, listed
from bireme.runtime.checkpoints.storage import checkpoint_format, checkpoint_reader, folder_marks
from bireme.runtime.checkpoints.storage.folder_store import FolderStore
from bireme.runtime.checkpoints.storage.ownership import Ownership, OwnershipClaim
from bireme.runtime.checkpoints.values import Owner
from bireme.runtime.script.complaints import Complaint
from bireme.runtime.script.rank_env import read_rank_env
from tests.unit.checkpoints.building import Heard

LIVELY = Patience(heartbeat=0.1, silence=0.6)
TORCHRUN = {
    "RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "none",
}


def taken(folder: Path) -> Ownership:
    return folder_marks.take(str(folder), OwnershipClaim(Owner("train-abcd")), lambda: 0, tell=print)


def test_a_folder_that_was_taken_is_held_until_it_is_released(tmp_path: Path) -> None:
    ownership = taken(tmp_path)

    assert ownership.is_held()
    ownership.release()
    assert not ownership.is_held()


def test_a_folder_that_was_removed_is_not_held(tmp_path: Path) -> None:
    ownership = taken(tmp_path / "folder")
    shutil.rmtree(tmp_path / "folder")

    assert not ownership.is_held()

    ownership.release()
    again = taken(tmp_path / "folder")
    assert again.is_held()
    again.release()


def test_a_forked_process_does_not_hold_what_its_parent_does(tmp_path: Path) -> None:
    ownership = taken(tmp_path)

    child = os.fork()
    if child == 0:
        os._exit(int(ownership.is_held()))

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ownership.is_held()
    ownership.release()


def torchrun(where: Path, restarts: int, keep: int = 3) -> Checkpoints:
    """As a script sees the place that a torchrun with its defaults has started, on whichever host."""
    found = read_rank_env({**TORCHRUN, "TORCHELASTIC_RESTART_COUNT": str(restarts)})
    owner = Owner(str(where), found.rank, found.world_size, found.attempt, found.launch)
    return Checkpoints(str(where), owner, Keep(last=keep), Heard(), LIVELY)


@pytest.fixture
def _no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", refused)


@pytest.mark.usefixtures("_no_locks")
def test_a_torchrun_that_was_restarted_deletes_nothing_of_another_that_lives(tmp_path: Path) -> None:
    first = torchrun(tmp_path, 0)
    for step in (10, 20, 30):
        first.save(step, {"x": 1}, {}, {})
    first.wait()

    for restarts in (0, 1, 2):
        second = torchrun(tmp_path, restarts, keep=1)
        second.restore({})
        with pytest.raises(Complaint, match="is being written by another process of this run"):
            second.save(31, {"x": 2}, {}, {})
        second.close()
    first.save(40, {"x": 1}, {}, {})
    first.close()

    assert [one.step for one in listed(str(tmp_path))] == [20, 30, 40]


@pytest.mark.usefixtures("_no_locks")
def test_a_torchrun_that_was_restarted_after_the_other_has_ended_goes_on(tmp_path: Path) -> None:
    first = torchrun(tmp_path, 0)
    for step in (10, 20):
        first.save(step, {"x": 1}, {}, {})
    first.close()

    second = torchrun(tmp_path, 1, keep=2)
    second.restore({})
    second.save(30, {"x": 2}, {}, {})
    second.close()

    assert [one.step for one in listed(str(tmp_path))] == [20, 30]


def test_what_a_later_owner_has_saved_is_not_removed_by_one_that_was_replaced(tmp_path: Path) -> None:
    """It may have been stopped after its last look at the mark."""
    later = Checkpoints(str(tmp_path), Owner("run"), Keep(), Heard(), LIVELY)
    for step in (10, 20, 30):
        later.save(step, {"x": 1}, {}, {})
    later.close()
    heads = [checkpoint_reader.stated(FolderStore(str(tmp_path)), one.name) for one in listed(str(tmp_path))]
    assert {checkpoint_format.generation(head.serial) for head in heads} == {1}

    stopped = Checkpoints(str(tmp_path), Owner("run"), Keep(last=1), Heard(), LIVELY)
    stopped._retain(generation=0)

    assert [one.step for one in listed(str(tmp_path))] == [10, 20, 30]
    stopped._retain(generation=1)
    assert [one.step for one in listed(str(tmp_path))] == [30]


def test_ranks_go_on_saving_after_somebody_has_removed_the_folder(tmp_path: Path) -> None:
    where, heard = tmp_path / "folder", Heard()
    gang = [
        Checkpoints(str(where), Owner("run", rank, 2, 0, "aa"), Keep(), heard, LIVELY) for rank in range(2)
    ]
    saved(gang, 10)

    shutil.rmtree(where)
    saved(gang, 20)
    for mark in where.glob("owner-*.json"):
        mark.unlink()
    saved(gang, 30)

    assert heard == []
    assert [one.step for one in listed(str(where))] == [20, 30]
    assert [one.world_size for one in listed(str(where))] == [2, 2]
    for one in gang:
        one.close()


def saved(gang: list[Checkpoints], step: int) -> None:
    for one in gang:
        one.save(step, {"x": 1}, {}, {})
    for one in gang:
        one.wait()
