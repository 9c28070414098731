"""Does training go on, and say so, when the disk is full or cannot be written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.local.checkpointing import ran, words

FILL = """
import resource
if sys.argv[2] == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
checkpoints = opened("run", last=2)
for step, size in enumerate([400_000, 5_000_000, 300_000], 1):
    checkpoints.save(step, {"x": os.urandom(size)}, {}, {})
    checkpoints.wait()
    print("left", sorted(name for name in os.listdir(sys.argv[1]) if not name.startswith("owner")))
restored = checkpoints.restore({})
print(restored.step, len(restored.values["x"]))
checkpoints.close()
"""
AFTER_FILL = [
    "left ['step-000000001']",
    "left ['step-000000001']",
    "left ['step-000000001', 'step-000000003']",
    "3 300000",
]


def test_a_file_that_may_not_grow_costs_one_checkpoint(tmp_path: Path) -> None:
    said = ran(words(FILL, tmp_path, "limit")).splitlines()

    (told,) = [line for line in said if line.startswith("TOLD")]
    assert told.startswith(f"TOLD STEP 2 WAS NOT SAVED: File too large: {tmp_path}; training goes on")
    assert [line for line in said if line != told] == AFTER_FILL


def on_tmpfs(where: Path, options: str, command: list[str]) -> list[str]:
    """The command in a mount namespace of its own, with a small file system at the folder."""
    mount = f"mount -t tmpfs -o {options} none {where}"
    return ["unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', "sh", *command]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_full_disk_costs_one_checkpoint(tmp_path: Path) -> None:
    said = ran(on_tmpfs(tmp_path, "size=3m", words(FILL, tmp_path, "disk"))).splitlines()

    (told,) = [line for line in said if line.startswith("TOLD")]
    assert told.startswith(
        f"TOLD STEP 2 WAS NOT SAVED: No space left on device: {tmp_path} (5 MB are needed, "
    )
    assert [line for line in said if line != told] == AFTER_FILL


READ_ONLY = """
import subprocess

def mounted(how):
    subprocess.run(["mount", "-o", "remount," + how, sys.argv[1]], check=True)

checkpoints = opened()
checkpoints.save(1, {"x": 1}, {}, {})
checkpoints.close()
mounted("ro")
for step in (2, 3):
    checkpoints.save(step, {"x": step}, {}, {})
    print(checkpoints.restore({}).values)
mounted("rw")
checkpoints.save(4, {"x": 4}, {}, {})
print(checkpoints.restore({}).values)
checkpoints.close()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_folder_that_cannot_be_written_is_told_at_each_save_and_still_read(tmp_path: Path) -> None:
    said = ran(on_tmpfs(tmp_path, "size=3m", words(READ_ONLY, tmp_path))).splitlines()

    told = f"TOLD STEP %d WAS NOT SAVED: Read-only file system: {tmp_path}; training goes on, "
    told += "and the next save tries again"
    assert said == [told % 2, "{'x': 1}", told % 3, "{'x': 1}", "{'x': 4}"]


NO_FOLDER = """
checkpoints = opened()
checkpoints.save(1, {"x": 1}, {}, {})
print(checkpoints.restore({}))
checkpoints.close()
"""


def test_a_file_in_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    said = ran(words(NO_FOLDER, tmp_path / "file")).splitlines()

    assert said[0].startswith("TOLD STEP 1 WAS NOT SAVED: File exists: ")
    assert said[1] == "None"
