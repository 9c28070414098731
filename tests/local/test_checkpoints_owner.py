"""Is a folder of checkpoints written by one run alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.local.checkpoint_processes import begun, ran, words

HOLD = """
checkpoints = opened(sys.argv[2])
checkpoints.save(1, {"x": 1}, {}, {})
checkpoints.wait()
if len(sys.argv) > 3:
    import shutil
    shutil.copytree(sys.argv[1], sys.argv[3])
print("holding", flush=True)
sys.stdin.read()
"""
SAVE = """
checkpoints = opened(sys.argv[2], int(sys.argv[3]))
if len(sys.argv) > 4:
    checkpoints.restore({})
try:
    checkpoints.save(2, {"x": 2}, {}, {})
except Complaint as complaint:
    print("REFUSED", complaint)
checkpoints.close()
print([one.step for one in listed(sys.argv[1])])
"""


@contextmanager
def held(where: Path, run: str, *copy: Path) -> Iterator[int]:
    process = begun(words(HOLD, where, run, *copy))
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "holding\n"
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def test_a_second_run_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    with held(tmp_path, "first") as pid:
        said = ran(words(SAVE, tmp_path, "second", 0, "restore"))

    assert f"REFUSED {tmp_path} is being written by run first (process {pid} on " in said
    assert "give each run a place of its own" in said
    assert said.endswith("[1]\n")


def test_a_script_that_copies_its_checkpoints_does_not_lose_its_place(tmp_path: Path) -> None:
    """To close any file that a process has locked ends its lock."""
    with held(tmp_path / "here", "first", tmp_path / "copy") as pid:
        said = ran(words(SAVE, tmp_path / "here", "second", 0, "restore"))

    assert f"is being written by run first (process {pid} on " in said
    assert said.endswith("[1]\n")


def test_a_second_process_of_the_same_run_is_refused(tmp_path: Path) -> None:
    with held(tmp_path, "first"):
        said = ran(words(SAVE, tmp_path, "first", 0))

    assert "is being written by another process of this run" in said
    assert said.endswith("[1]\n")


def test_a_later_attempt_does_not_wait_for_ever_and_cuts_the_earlier_off(tmp_path: Path) -> None:
    with held(tmp_path, "first"):
        said = ran(words(SAVE, tmp_path, "first", 1, "restore"))

    assert said == "[1, 2]\n"


def test_a_dead_run_s_folder_is_refused_unless_it_is_restored_from(tmp_path: Path) -> None:
    with held(tmp_path, "first"):
        pass

    refused = ran(words(SAVE, tmp_path, "second", 0))
    taken = ran(words(SAVE, tmp_path, "second", 0, "restore"))

    assert f"REFUSED {tmp_path} holds the checkpoints of another run, first; choose another place" in refused
    assert taken == (
        f"TOLD {tmp_path} held the checkpoints of run first; from now on it is this run's\n[1, 2]\n"
    )


def test_the_same_run_goes_on_after_its_death(tmp_path: Path) -> None:
    with held(tmp_path, "first"):
        pass

    assert ran(words(SAVE, tmp_path, "first", 0, "restore")) == "[1, 2]\n"


OVERTAKEN = """
from bireme.runtime.checkpoints.storage import owner_marks
from bireme.runtime.checkpoints.storage.folder_marks import FolderMarks
checkpoints = opened("run", 0)
checkpoints.save(1, {"x": 1}, {}, {})
checkpoints.wait()
of = FolderMarks(sys.argv[1])
of.take(owner_marks.made(Owner("run", 0, 1, 1), 2, 5.0), of.read())
checkpoints.save(2, {"x": 2}, {}, {})
checkpoints.close()
print([one.step for one in listed(sys.argv[1])])
"""


def test_an_attempt_that_was_replaced_commits_nothing_more(tmp_path: Path) -> None:
    said = ran(words(OVERTAKEN, tmp_path))

    assert said == (
        "TOLD step 2 was not saved: another run or a later attempt writes here now; training goes on\n[1]\n"
    )


WITHOUT_LOCKS = """
import errno, fcntl

def refused(*given):
    raise OSError(errno.ENOLCK, "No locks available")

fcntl.lockf = fcntl.flock = refused
"""


def test_a_second_run_in_a_folder_without_locks_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    process = begun(words(WITHOUT_LOCKS + HOLD, tmp_path, "first"))
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "holding\n"
        said = ran(words(WITHOUT_LOCKS + SAVE, tmp_path, "second", 0, "restore"))
    finally:
        process.kill()
        process.communicate()

    assert f"REFUSED {tmp_path} is being written by run first (process {process.pid} on " in said
    assert said.endswith("[1]\n")
