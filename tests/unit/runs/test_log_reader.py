"""Does a reader see every line once, in order, while files are written and left behind."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bireme.runs.logs.log_entries import (
    Stream,
)
from bireme.runs.logs.log_reader import LogFollower, LogLine, LogSelection, read, tail
from bireme.runs.logs.log_writer import (
    LogSettings,
    LogWriter,
)
from tests.unit.runs.run_fixtures import actor, finish

OUT, ERR = Stream.STDOUT, Stream.STDERR
SMALL = LogSettings(rotate_at=2000, keep=100)


def written(logs: Path, replica: str, *lines: tuple[float, str], container: str = "main") -> None:
    one = LogWriter(logs, replica, container, SMALL)
    for time, text in lines:
        one.feed(OUT, f"{text}\n".encode(), time)
    one.close(0.0)


def numbered(logs: Path, replica: str, count: int, start: float = 0.0) -> None:
    written(logs, replica, *((start + number, f"{replica} {number}") for number in range(count)))


def test_replicas_are_merged_by_time(tmp_path: Path) -> None:
    written(tmp_path, "w-0", (1.0, "a"), (4.0, "d"))
    written(tmp_path, "w-1", (2.0, "b"), (3.0, "c"), (5.0, "e"))

    lines = list(read(tmp_path))

    assert [line.text for line in lines] == ["a", "b", "c", "d", "e"]
    assert lines[0] == LogLine(1.0, "w-0", "main", "stdout", "a")


def test_one_replica_or_container_can_be_chosen(tmp_path: Path) -> None:
    written(tmp_path, "w-0", (1.0, "a"))
    written(tmp_path, "w-1", (2.0, "b"))
    written(tmp_path, "w-1", (3.0, "c"), container="helper")

    assert [line.text for line in read(tmp_path, LogSelection(replica="w-1"))] == ["b", "c"]
    assert [line.text for line in read(tmp_path, LogSelection(replica="w-1", container="main"))] == ["b"]
    assert list(read(tmp_path, LogSelection(replica="w-9"))) == []


def test_a_run_without_logs_is_quiet(tmp_path: Path) -> None:
    assert list(read(tmp_path / "logs")) == []
    assert tail(tmp_path / "logs", 5) == []


def test_lines_since_a_time(tmp_path: Path) -> None:
    numbered(tmp_path, "w-0", 500)
    numbered(tmp_path, "w-1", 500, start=250.0)

    late = list(read(tmp_path, LogSelection(since=490.0)))

    assert [line.time for line in late] == sorted(line.time for line in late)
    assert sum(line.replica == "w-0" for line in late) == 10
    assert sum(line.replica == "w-1" for line in late) == 260


def test_lines_since_a_time_within_one_long_file(tmp_path: Path) -> None:
    one = LogWriter(tmp_path, "w-0", "main")
    one.feed(OUT, b"", 0.0)
    for number in range(20_000):
        one.feed(OUT, b"x" * 50 + b"\n", float(number))

    times = [line.time for line in read(tmp_path, LogSelection(since=17_123.0))]

    assert times == [float(number) for number in range(17_123, 20_000)]


def test_the_tail_is_over_all_replicas_and_files(tmp_path: Path) -> None:
    numbered(tmp_path, "w-0", 300)
    numbered(tmp_path, "w-1", 300, start=150.0)

    everything = list(read(tmp_path))

    for count in (0, 1, 10, 200, 599, 600, 10_000):
        assert tail(tmp_path, count) == everything[len(everything) - min(count, len(everything)) :]


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux tells how much was read")
def test_the_tail_of_a_large_file_reads_little_of_it(tmp_path: Path) -> None:
    one_megabyte = 1_000_000
    one = LogWriter(tmp_path, "w-0", "main")
    for block in range(100):
        one.feed(OUT, b"".join(b"line %d of a large file\n" % (block * 1000 + n) for n in range(1000)), 1.0)

    before = bytes_read()
    lines = tail(tmp_path, 3)
    used = bytes_read() - before

    assert used < one_megabyte
    assert [line.text for line in lines] == [f"line {n} of a large file" for n in (99_997, 99_998, 99_999)]


def bytes_read() -> int:
    """What this process has read so far, in bytes; only Linux tells."""
    return int(Path("/proc/self/io").read_text().split()[1])


def test_a_long_backlog_comes_in_order_over_several_polls(tmp_path: Path) -> None:
    for replica, step in (("w-0", 1.0), ("w-1", 3.0)):
        one = LogWriter(tmp_path, replica, "main")
        for number in range(30_000):
            one.feed(OUT, b"x" * 60 + b"\n", number * step)

    polls = 0
    times = []
    with LogFollower(tmp_path) as follower:
        while polls == 0 or follower.behind:
            times += [line.time for line in follower.poll()]
            polls += 1

    assert polls > 2
    assert times == sorted([float(n) for n in range(30_000)] + [n * 3.0 for n in range(30_000)])


def test_a_clock_that_was_set_back_loses_no_line(tmp_path: Path) -> None:
    one = LogWriter(tmp_path, "w-0", "main")
    for number in range(30_000):
        one.feed(OUT, b"%d" % number + b"x" * 60 + b"\n", float(-number % 1000))
    numbered(tmp_path, "w-1", 1000)

    assert sum(1 for _ in read(tmp_path)) == 31_000
    mine = [int(line.text.rstrip("x")) for line in read(tmp_path, LogSelection(replica="w-0"))]
    assert mine == list(range(30_000))


def test_a_follower_sees_new_lines_new_replicas_and_new_files(tmp_path: Path) -> None:
    follower = LogFollower(tmp_path)
    assert follower.poll() == []

    one = LogWriter(tmp_path, "w-0", "main", SMALL)
    one.feed(OUT, b"a\nb", 1.0)
    assert [line.text for line in follower.poll()] == ["a"]
    one.feed(OUT, b"c\n", 2.0)
    numbered(tmp_path, "w-1", 100, start=10.0)
    assert [line.text for line in follower.poll()] == ["bc", *(f"w-1 {n}" for n in range(100))]
    assert follower.poll() == []
    assert not follower.behind
    follower.close()


def test_a_follower_can_begin_with_the_last_lines(tmp_path: Path) -> None:
    numbered(tmp_path, "w-0", 500)
    follower = LogFollower(tmp_path, LogSelection(last=2))

    assert [line.text for line in follower.poll()] == ["w-0 498", "w-0 499"]
    written(tmp_path, "w-0", (600.0, "x"), (601.0, "y"), (602.0, "z"))
    written(tmp_path, "w-1", (603.0, "new"))

    assert [line.text for line in follower.poll()] == ["x", "y", "z", "new"]
    follower.close()


def test_a_follower_that_is_slower_than_the_removal_goes_on_with_what_is_left(tmp_path: Path) -> None:
    one = LogWriter(tmp_path, "w-0", "main", LogSettings(rotate_at=500, keep=1))
    one.feed(OUT, b"0\n", 0.0)
    follower = LogFollower(tmp_path)
    seen = [int(line.text) for line in follower.poll()]

    for number in range(1, 100):
        one.feed(OUT, b"%d\n" % number, float(number))
    seen += [int(line.text) for line in follower.poll()]

    assert seen == sorted(set(seen))
    assert seen[0] == 0
    assert seen[-1] == 99
    follower.close()


def test_no_line_is_lost_or_doubled_while_files_are_left_behind(tmp_path: Path) -> None:
    count = 4000
    writers = [actor("write_log", tmp_path, f"w-{index}", count, 3000) for index in range(2)]
    seen: dict[str, list[str]] = {"w-0": [], "w-1": []}

    def take(lines: list[LogLine]) -> None:
        for line in lines:
            seen[line.replica].append(line.text)

    with LogFollower(tmp_path) as follower:
        while any(_runs(one) for one in writers):
            take(follower.poll())
        take(follower.poll())
        while follower.behind:
            take(follower.poll())

    assert [finish(one) for one in writers] == [0, 0]
    assert seen["w-0"] == [f"line {number}" for number in range(count)]
    assert seen["w-1"] == [f"line {number}" for number in range(count)]
    assert len(list((tmp_path / "w-0").iterdir())) > 50


def _runs(process: subprocess.Popen[str]) -> bool:
    return process.poll() is None
