"""Does a folder keep its owner: in a process that was forked, and when somebody removes it?"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from bireme.runtime.checkpoints import foldermarks
from bireme.runtime.checkpoints.owning import Claim, Ownership
from bireme.runtime.checkpoints.values import Owner


def taken(folder: Path) -> Ownership:
    return foldermarks.take(str(folder), Claim(Owner("train-abcd")), lambda: 0, tell=print)


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
