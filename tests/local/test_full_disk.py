"""A local job continues while the disk of its home is full, and catches up when there is room."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bireme import errors
from bireme.core.machine.admission import Capacity
from bireme.model.decisions import Demand
from bireme.model.pods import Resources
from bireme.model.replicas import Waiting
from bireme.model.status import Phase
from bireme.runs.directory import RunDirectory
from bireme.runs.ledger import Grant, Ledger
from bireme.runs.run_files import RunId
from tests.local.harness import PATIENCE, Bireme, bireme_in, json_of, until
from tests.local.small_disk import Disk, small_disk

TICKS = """
import os, pathlib, sys, time
rank, attempt = os.environ["RANK"], os.environ["BIREME_ATTEMPT"]
here = pathlib.Path(sys.argv[1])
for tick in range(1_000_000):
    (here / f"tick-{attempt}-{rank}.new").write_text(str(tick))
    (here / f"tick-{attempt}-{rank}.new").rename(here / f"tick-{attempt}-{rank}")
    print("tick", tick, flush=True)
    if (here / f"exit-{attempt}-{rank}").exists():
        sys.exit(int((here / f"exit-{attempt}-{rank}").read_text()))
    time.sleep(0.05)
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


class Ranks:
    """The ranks of TICKS: how far they are, and when they are told to exit."""

    def __init__(self, bireme: Bireme) -> None:
        self._folder = bireme.folder

    def tick(self, attempt: int, rank: int) -> int:
        path = self._folder / f"tick-{attempt}-{rank}"
        return int(path.read_text()) if path.exists() else -1

    def exit(self, attempt: int, rank: int, code: int) -> None:
        new = self._folder / "exit.new"
        new.write_text(str(code))
        new.rename(self._folder / f"exit-{attempt}-{rank}")

    def go_on(self, attempt: int, rank: int) -> None:
        """Wait until the rank has worked for some seconds more."""
        aim = self.tick(attempt, rank) + 50
        until(
            lambda: self.tick(attempt, rank) >= aim, f"rank {rank} of attempt {attempt} goes on", patience=60
        )


def started(bireme: Bireme, *options: str) -> Ranks:
    bireme.write("ticks.py", TICKS)
    done = bireme("run", "ticks.py", "--name", "ticks", "--detach", *options, "--", str(bireme.folder))
    assert done.returncode == 0, done.stderr
    ranks = Ranks(bireme)
    until(lambda: ranks.tick(0, 0) >= 0 and ranks.tick(0, 1) >= 0, "both ranks run")
    until(lambda: bireme.status("ticks").phase is Phase.RUNNING, "the job is seen running")
    return ranks


def test_ranks_that_end_while_the_disk_is_full_are_counted_when_there_is_room(
    bireme: Bireme, disk: Disk
) -> None:
    ranks = started(bireme, "--workers", "2")
    keepers = bireme.keepers("ticks")
    disk.fill()

    ranks.go_on(0, 1)
    ranks.exit(0, 0, 0)
    ranks.go_on(0, 1)
    ranks.exit(0, 1, 0)
    until(lambda: not bireme.ranks("ticks"), "both ranks have ended")
    assert len(keepers) == 2
    assert bireme.keepers("ticks") == keepers
    disk.empty()

    done = bireme("wait", "ticks")
    assert done.returncode == 0, done.stderr
    status = bireme.status("ticks")
    assert (status.attempt, status.crashes, status.evictions) == (0, 0, 0)
    told = [one for one in bireme.run("ticks").events() if one.reason == "DiskFull"]
    assert len(told) == 1
    assert "nothing could be recorded" in told[0].message


def test_a_crash_while_the_disk_is_full_restarts_the_gang_when_there_is_room(
    bireme: Bireme, disk: Disk
) -> None:
    ranks = started(bireme, "--workers", "2", "--retries", "3")
    keepers = bireme.keepers("ticks")
    disk.fill()

    ranks.exit(0, 1, 3)
    ranks.go_on(0, 0)
    assert bireme.keepers("ticks") == keepers
    disk.empty()

    until(lambda: ranks.tick(1, 0) >= 0 and ranks.tick(1, 1) >= 0, "the second attempt runs")
    ranks.exit(1, 0, 0)
    ranks.exit(1, 1, 0)
    done = bireme("wait", "ticks")
    assert done.returncode == 0, done.stderr
    status = bireme.status("ticks")
    assert (status.attempt, status.crashes, status.evictions) == (1, 1, 0)
    assert bireme.keepers("ticks") == []


def test_commands_on_a_full_disk_say_so_and_those_that_only_look_work(bireme: Bireme, disk: Disk) -> None:
    ranks = started(bireme, "--workers", "2")
    bireme("ps")
    disk.fill()

    new = bireme("run", "ticks.py", "--name", "another", "--", str(bireme.folder))
    shown = bireme("show", "ticks")
    listed = bireme("ps")

    assert new.returncode == errors.DiskFull.exit_status
    assert "No space left on device" in new.stderr
    assert "make room: `df -h" in new.stderr
    assert shown.returncode == 0, shown.stderr
    assert listed.returncode in (0, errors.DiskFull.exit_status), listed.stderr
    disk.empty()
    ranks.exit(0, 0, 0)
    ranks.exit(0, 1, 0)
    assert bireme("wait", "ticks").returncode == 0


LOUD = """
import pathlib, sys, time
here = pathlib.Path(sys.argv[1])
print("ready", flush=True)
while not (here / "go").exists():
    time.sleep(0.02)
for number in range(40_000):
    print("x" * 100, number)
print("end of output", flush=True)
(here / "printed").touch()
while not (here / "end").exists():
    time.sleep(0.02)
"""
DROPPED = re.compile(r"bireme: ([0-9]+) lines \([0-9.]+ MB\) were dropped here: .* for [0-9]+ s")


def test_a_rank_that_prints_on_a_full_disk_goes_on_and_its_log_says_how_many_lines_are_missing(
    bireme: Bireme, disk: Disk
) -> None:
    bireme.write("loud.py", LOUD)
    done = bireme("run", "loud.py", "--name", "loud", "--detach", "--", str(bireme.folder))
    assert done.returncode == 0, done.stderr
    until(lambda: "ready" in bireme("logs", "loud").stdout, "the rank runs")
    disk.fill()
    disk.shrink(300_000)

    bireme.write("go", "")
    until((bireme.folder / "printed").exists, "the rank has printed 4 MB", patience=60)
    shown = [bireme(*words) for words in (("ps",), ("show", "loud"), ("logs", "loud"))]
    bireme.write("end", "")
    until(lambda: not bireme.ranks("loud"), "the rank has ended")
    listed = bireme("ps", "--json")
    disk.empty()

    assert [one.returncode for one in (*shown, listed)] == [0, 0, 0, 0], [one.stderr for one in shown]
    assert all("is on a full disk" in one.stderr for one in shown)
    assert [one.get("name") for one in json_of(listed)["jobs"]] == ["loud"]  # type: ignore[attr-defined]
    assert bireme("wait", "loud").returncode == 0
    lines = bireme("logs", "loud").stdout.splitlines()
    note = DROPPED.fullmatch(lines[-1])
    assert note is not None, lines[-1]
    whole = [line for line in lines if re.fullmatch(r"x{100} [0-9]+", line)]
    # The line that the full disk cut in two is counted as dropped, and its first half is there.
    assert len(whole) + int(note[1]) in (40_001, 40_002)
    events = [one.message for one in bireme.run("loud").events() if one.reason == "DiskFull"]
    assert len(events) == 1
    assert f"{note[1]} lines that they printed were dropped" in events[0]


REWINDS = """
import os, pathlib, sys, time
here = pathlib.Path(sys.argv[1])
with open(here / "begun", "a") as begun:
    begun.write("x")
print("ready", flush=True)
while not (here / "go").exists():
    time.sleep(0.02)
for piece in ("x" * 40_000, "x"):
    print(piece, end="", flush=True)
    time.sleep(0.5 if len(piece) > 1 else 0.003)
print("\\ry bar", flush=True)
os._exit(0)  # soon after it was read last, so that the end of its output is still in the pipe
"""


def test_a_rank_that_ended_with_0_on_a_full_disk_is_not_run_again(bireme: Bireme, disk: Disk) -> None:
    bireme.write("rewinds.py", REWINDS)
    done = bireme("run", "rewinds.py", "--name", "rewinds", "--detach", "--", str(bireme.folder))
    assert done.returncode == 0, done.stderr
    until(lambda: "ready" in bireme("logs", "rewinds").stdout, "the rank runs")
    keepers = bireme.keepers("rewinds")
    disk.fill()

    bireme.write("go", "")
    until(lambda: not bireme.ranks("rewinds"), "the rank has ended")
    assert bireme.keepers("rewinds") == keepers
    disk.empty()

    assert bireme("wait", "rewinds").returncode == 0
    assert (bireme.folder / "begun").read_text() == "x"
    logs = bireme("logs", "rewinds")
    assert "1 line (" in logs.stdout + logs.stderr


def test_output_after_the_full_disk_follows_the_note_on_what_is_missing(bireme: Bireme, disk: Disk) -> None:
    bireme.write("loud.py", LOUD)
    following = bireme.begin("run", "loud.py", "--name", "loud", "--", str(bireme.folder))
    until(lambda: (disk.path / "runs/loud/1/logs/loud-master-0").exists(), "the rank has a log")
    disk.fill()

    bireme.write("go", "")
    until((bireme.folder / "printed").exists, "the rank has printed 4 MB", patience=60)
    disk.empty()
    until(
        lambda: "were dropped here" in bireme("logs", "loud").stdout,
        "the log recovers by itself",
        patience=30,
    )
    bireme.write("end", "")
    out, said = following.communicate(timeout=PATIENCE)

    assert following.returncode == 0, said
    assert out.count("were dropped here") == 1


def test_a_run_that_has_ended_can_be_removed_from_a_full_disk(bireme: Bireme, disk: Disk) -> None:
    bireme.write("short.py", "print('done')")
    assert bireme("run", "short.py", "--name", "short").returncode == 0
    disk.fill()

    removed = bireme("rm", "--yes", "short")

    assert removed.returncode == 0, removed.stderr
    assert not (disk.path / "runs/short/1").exists()


def test_a_run_that_is_active_can_be_removed_from_a_full_disk(bireme: Bireme, disk: Disk) -> None:
    ranks = started(bireme, "--workers", "2")
    disk.fill()
    ranks.go_on(0, 0)
    # Its end cannot be recorded: the runner waits for room, and hears nevertheless.
    ranks.exit(0, 1, 3)
    ranks.go_on(0, 0)

    removed = bireme("rm", "--yes", "ticks")

    assert removed.returncode == 0, removed.stderr
    assert not (disk.path / "runs/ticks/1").exists()
    assert bireme.leftovers() == []


def test_a_run_whose_log_lacks_a_note_on_what_is_missing_can_be_removed(bireme: Bireme, disk: Disk) -> None:
    bireme.write("loud.py", LOUD)
    done = bireme("run", "loud.py", "--name", "loud", "--detach", "--", str(bireme.folder))
    assert done.returncode == 0, done.stderr
    until(lambda: "ready" in bireme("logs", "loud").stdout, "the rank runs")
    disk.fill()
    bireme.write("go", "")
    until((bireme.folder / "printed").exists, "the rank has printed 4 MB", patience=60)
    # Room for its status, and not for what a run writes in one go.
    disk.shrink(24_576)
    bireme.write("end", "")
    until(lambda: bireme.status("loud").phase is Phase.SUCCEEDED, "its end is recorded")

    removed = bireme("rm", "--yes", "loud")

    assert removed.returncode == 0, removed.stderr
    assert not (disk.path / "runs/loud/1").exists()


def test_a_log_that_is_larger_than_files_may_be_holds_nobody_up(tmp_path: Path) -> None:
    with bireme_in(tmp_path, ("prlimit", "--fsize=614400", "--")) as bireme:
        bireme.write("big.py", "for number in range(28_000):\n    print('x' * 100, number)\nprint('end')\n")
        done = bireme("run", "big.py", "--name", "big", "--json")
        assert done.returncode == 0, done.stderr
        until(lambda: not bireme.keepers("big"), "its runner has ended", patience=30)

        assert bireme("logs", "big").stdout.splitlines()[-1] == "end"
        removed = bireme("rm", "--ended", "--yes")

        assert "removed 1 ended job" in removed.stderr


def test_a_follower_says_once_that_the_disk_is_full(bireme: Bireme, disk: Disk) -> None:
    bireme.write("ticks.py", TICKS)
    following = bireme.begin("run", "ticks.py", "--name", "ticks", "--workers", "1", "--", str(bireme.folder))
    ranks = Ranks(bireme)
    until(lambda: ranks.tick(0, 0) >= 0, "the rank runs")
    disk.fill()
    ranks.go_on(0, 0)
    disk.empty()
    ranks.exit(0, 0, 0)

    _, said = following.communicate(timeout=PATIENCE)

    assert following.returncode == 0, said
    assert said.count(f"{disk.mounted} is on a full disk") == 1, said


def test_the_ledger_refuses_on_a_full_disk_and_serves_when_there_is_room(disk: Disk) -> None:
    ledger = Ledger(disk.path, lambda: Capacity(cpu=4000, memory=0))
    run = RunId("mnist", 1)
    RunDirectory(disk.path, run).path.mkdir(parents=True)
    demands = (Demand("mnist-worker-0", Resources(cpu=1000)),)
    disk.fill()

    with pytest.raises(errors.DiskFull, match="cannot write"):
        ledger.admit(run, 0, demands, 1.0)
    disk.empty()

    assert isinstance(ledger.admit(run, 0, demands, 2.0), Grant)
    disk.fill()
    with pytest.raises(errors.DiskFull, match="cannot write"):
        ledger.admit(run, 1, demands, 3.0)
    disk.empty()
    assert ledger.admit(run, 1, demands, 4.0) != Waiting(1, "")
    ledger.release(run)
    assert ledger.holders() == ()


SAVER = """
import pathlib, sys, time
import bireme
here = pathlib.Path(sys.argv[1])
with bireme.init(every=1) as run:
    start = run.restore(weights=[0.0])
    (here / "ready").touch()
    while not (here / "go").exists():
        time.sleep(0.02)
    run.save(1, weights=list(range(1000)))
"""


def test_a_checkpoint_that_found_no_room_is_told_of_once_there_is_room(bireme: Bireme, disk: Disk) -> None:
    bireme.write("saver.py", SAVER)
    done = bireme("run", "saver.py", "--name", "saver", "--detach", "--", str(bireme.folder))
    assert done.returncode == 0, done.stderr
    until((bireme.folder / "ready").exists, "the rank runs")
    disk.fill()
    bireme.write("go", "")
    until(lambda: not bireme.ranks("saver"), "the rank has ended")
    disk.empty()

    assert bireme("wait", "saver").returncode == 0
    reasons = [one.reason for one in bireme.run("saver").events()]
    assert "CheckpointsNotSaved" in reasons, (reasons, bireme("logs", "saver").stdout)


def test_a_run_refused_for_lack_of_room_leaves_no_folder_and_names_one_that_is_there(
    bireme: Bireme, disk: Disk
) -> None:
    bireme.write("short.py", "print('done')")
    assert bireme("run", "short.py", "--name", "short").returncode == 0
    disk.fill()

    refused = bireme("run", "short.py", "--name", "another")

    assert refused.returncode == errors.DiskFull.exit_status, refused.stderr
    named = re.search(r"df -h ([^` ]+)", refused.stderr)
    assert named is not None, refused.stderr
    assert (disk.path / Path(named[1]).relative_to(disk.mounted)).is_dir(), refused.stderr
    assert "bireme rm --ended" in refused.stderr
    assert not (disk.path / "runs/another").exists()
