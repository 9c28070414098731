"""Does training go on, and say so, when the disk is full or cannot be written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.local.checkpoint_processes import ran, words

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
    told += "and the next save, if there is one, tries again"
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


ROOM = """
import shutil
checkpoints = opened("run", last=3)
for step, size in enumerate([900_000] * 6, 1):
    checkpoints.save(step, {"x": os.urandom(size)}, {}, {"loss": float(step)})
    checkpoints.wait()
print("left", sorted(name for name in os.listdir(sys.argv[1]) if name.startswith("step")))
checkpoints.close()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_disk_with_room_for_two_keeps_the_newest_two_and_not_the_oldest(tmp_path: Path) -> None:
    said = ran(on_tmpfs(tmp_path, "size=2500k", words(ROOM, tmp_path))).splitlines()

    assert said[-1] == "left ['step-000000005', 'step-000000006']"
    assert not [line for line in said if "WAS NOT SAVED" in line]
    assert [line for line in said if "step-000000001" in line]  # that it was removed early is told


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_disk_with_room_for_one_keeps_it_and_never_has_none(tmp_path: Path) -> None:
    said = ran(on_tmpfs(tmp_path, "size=1500k", words(ROOM, tmp_path))).splitlines()

    assert said[-1] == "left ['step-000000001']"
    assert len([line for line in said if "WAS NOT SAVED" in line]) == 5


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_the_best_checkpoint_is_not_what_makes_room(tmp_path: Path) -> None:
    script = ROOM.replace("last=3", "last=3, best=1, metric='loss'")
    said = ran(on_tmpfs(tmp_path, "size=3400k", words(script, tmp_path))).splitlines()

    assert said[-1] == "left ['step-000000001', 'step-000000005', 'step-000000006']"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_nothing_is_removed_for_a_checkpoint_that_does_not_fit_anyway(tmp_path: Path) -> None:
    script = ROOM.replace("[900_000] * 6", "[400_000, 400_000, 9_000_000]")
    said = ran(on_tmpfs(tmp_path, "size=2500k", words(script, tmp_path))).splitlines()

    assert said[-1] == "left ['step-000000001', 'step-000000002']"


GANG = """
ranks = [opened("run", rank=rank, world=2, last=3) for rank in (0, 1)]
for step in range(1, 6):
    for rank, checkpoints in enumerate(ranks):
        checkpoints.save(step, {"x": os.urandom(100_000)}, {"y": os.urandom(800_000 if rank else 1)}, {})
    for checkpoints in ranks:
        checkpoints.wait()
print("left", sorted(name for name in os.listdir(sys.argv[1]) if name.startswith("step")))
for checkpoints in ranks:
    print(checkpoints.restore({}).step if checkpoints is ranks[0] else len(listed(sys.argv[1])))
    checkpoints.close()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_room_is_made_for_a_rank_other_than_the_first_too(tmp_path: Path) -> None:
    said = ran(on_tmpfs(tmp_path, "size=2400k", words(GANG, tmp_path))).splitlines()

    assert said[-3:] == ["left ['step-000000004', 'step-000000005']", "5", "2"], said
    assert not [line for line in said if "not saved" in line.lower()]
