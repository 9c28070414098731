"""Is output written down as it was printed, line by line, whatever the chunks it came in."""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bireme import errors
from bireme.runs.logs import log_reader
from bireme.runs.logs.log_entries import (
    LogEntry,
    Stream,
    encode_entry,
    parse_entry,
    segments,
)
from bireme.runs.logs.log_writer import (
    LogSettings,
    LogWriter,
)
from tests.unit.runs.run_fixtures import forked

OUT, ERR = Stream.STDOUT, Stream.STDERR


def writer(logs: Path, replica: str = "mnist-worker-0", **settings: int) -> LogWriter:
    return LogWriter(logs, replica, "main", LogSettings(**settings))


def texts(logs: Path) -> list[str]:
    return [line.text for line in log_reader.read(logs)]


def raw(logs: Path) -> str:
    return (logs / "mnist-worker-0" / "main.log").read_text()


def live(logs: Path) -> list[str]:
    with log_reader.LogFollower(logs) as follower:
        follower.poll()
        return [line.text for line in follower.live()]


def test_an_entry_has_the_format_of_the_kubelet(tmp_path: Path) -> None:
    one = writer(tmp_path)

    one.feed(OUT, b"epoch 1\n", 1794784108.123456)
    one.feed(ERR, b"\n", 1794784109.0)

    assert raw(tmp_path) == (
        "2026-11-15T23:08:28.123456000Z stdout F epoch 1\n2026-11-15T23:08:29.000000000Z stderr F \n"
    )


@given(st.floats(0, 4e9), st.sampled_from(["stdout", "stderr"]), st.booleans(), st.binary())
def test_entries_come_back_as_they_were(time: float, stream: str, whole: bool, text: bytes) -> None:
    text = text.replace(b"\n", b"")

    found = parse_entry(encode_entry(LogEntry(time, stream, whole, text)).removesuffix(b"\n"))

    assert found is not None
    assert abs(found.time - time) < 2e-6
    assert (found.stream, found.whole, found.text) == (stream, whole, text)


@pytest.mark.parametrize("line", [b"", b"hello", b"2026-11-15T23:08:28.1", b"a b c d", b"\x00\x00 \x00 F x"])
def test_what_is_no_entry_is_passed_over(line: bytes) -> None:
    assert parse_entry(line) is None


@given(st.lists(st.sampled_from(["a", "bb", "\n", "\n", "ü", " "])), st.data())
def test_lines_do_not_depend_on_the_chunks_they_come_in(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], data: st.DataObject
) -> None:
    logs = tmp_path_factory.mktemp("logs")
    printed = "".join(parts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(printed)), max_size=5)))
    one = writer(logs, piece=3)

    for start, end in zip([0, *cuts], [*cuts, len(printed)], strict=True):
        one.feed(OUT, printed[start:end], 1.0)
    one.close(2.0)

    assert "\n".join(texts(logs)) == printed.decode().removesuffix("\n")


def test_a_line_is_not_written_before_it_ends(tmp_path: Path) -> None:
    one = writer(tmp_path)

    one.feed(OUT, b"loss", 1.0)
    assert raw(tmp_path) == ""
    one.feed(ERR, b"warning\n", 2.0)
    one.feed(OUT, b" 0.5\nnext", 3.0)
    one.close(4.0)

    assert texts(tmp_path) == ["warning", "loss 0.5", "next"]


def test_a_progress_bar_collapses_to_its_last_state(tmp_path: Path) -> None:
    one = writer(tmp_path)

    for percent in range(101):
        one.feed(OUT, f"\r{percent}%".encode(), 1.0)
    one.feed(OUT, b"\nwindows line\r\nold\rnew\r\n", 2.0)

    assert texts(tmp_path) == ["100%", "windows line", "new"]


@pytest.mark.parametrize("bar", [b"10%\r", b"\r10%", b"5%\r10%"])
def test_the_state_of_a_progress_bar_is_seen_live(tmp_path: Path, bar: bytes) -> None:
    one = writer(tmp_path)

    one.feed(OUT, bar, 1.0)
    assert live(tmp_path) == []
    assert one.tick(1.4) == 1.5
    assert live(tmp_path) == []
    assert one.tick(1.5) is None
    assert live(tmp_path) == ["10%"]
    one.feed(OUT, b"\r20%", 1.6)
    assert live(tmp_path) == ["10%"]
    one.feed(OUT, b"\r30%", 2.1)
    assert live(tmp_path) == ["30%"]
    one.feed(OUT, b"\r40%\n", 2.2)

    assert live(tmp_path) == []
    assert texts(tmp_path) == ["40%"]
    assert one.tick(3.0) is None


def test_a_clock_that_is_set_back_does_not_hide_a_progress_bar(tmp_path: Path) -> None:
    one = writer(tmp_path)

    one.feed(OUT, b"10%", 1000.0)
    one.tick(1.0)

    assert live(tmp_path) == ["10%"]


def test_the_bar_of_one_stream_stays_when_the_other_ends_a_line(tmp_path: Path) -> None:
    one = writer(tmp_path)
    one.feed(ERR, b"\r10%", 1.0)
    one.tick(1.5)

    one.feed(OUT, b"epoch 1\n", 1.6)
    assert one.tick(1.7) == 2.1
    one.tick(2.1)

    assert live(tmp_path) == ["10%"]


def test_a_long_line_is_written_in_pieces_and_read_as_one(tmp_path: Path) -> None:
    one = writer(tmp_path, piece=4)

    one.feed(OUT, "grüße an".encode(), 1.0)
    one.feed(ERR, b"x\n", 1.0)
    one.feed(OUT, b" alle\n", 2.0)

    assert raw(tmp_path).count(" P ") == 3
    assert texts(tmp_path) == ["x", "grüße an alle"]


def test_a_bar_longer_than_a_piece_collapses_too(tmp_path: Path) -> None:
    one = writer(tmp_path, piece=4)

    one.feed(OUT, b"aaaaaa", 1.0)
    one.feed(OUT, b"\rbbbbbb", 1.0)
    one.feed(OUT, b"\rcccccc\r\n", 1.0)

    assert texts(tmp_path) == ["cccccc"]


def test_a_killed_writer_loses_no_whole_line_and_the_next_ends_the_rest(tmp_path: Path) -> None:
    def bar(say: Callable[[str], None]) -> None:
        one = writer(tmp_path, piece=4)
        one.feed(OUT, b"first\n", 1.0)
        one.feed(OUT, b"long line", 1.0)
        one.feed(ERR, b"\r10%", 1.0)
        one.tick(2.0)
        say("written")
        signal.pause()

    child = forked(bar)
    assert child.heard() == "written"
    child.kill()
    with (tmp_path / "mnist-worker-0" / "main.log").open("ab") as file:
        file.write(b"2026-11-15T23:08")  # torn

    one = writer(tmp_path)
    one.feed(OUT, b"second\n", 3.0)

    assert sorted(texts(tmp_path)[:3]) == ["10%", "first", "long line"]
    assert texts(tmp_path)[3:] == ["second"]
    assert live(tmp_path) == []


def test_pieces_that_were_never_ended_do_not_run_into_the_next_line(tmp_path: Path) -> None:
    one = writer(tmp_path, piece=4)
    one.feed(OUT, b"12345678", 1.0)  # and nothing is left for the live file

    two = writer(tmp_path, piece=4)
    two.feed(OUT, b"next\n", 2.0)

    assert texts(tmp_path) == ["12345678", "next"]


def test_full_files_are_left_behind_and_the_oldest_removed(tmp_path: Path) -> None:
    one = writer(tmp_path, rotate_at=1000, keep=2)

    for number in range(100):
        one.feed(OUT, f"line {number}\n".encode(), float(number))

    assert segments(tmp_path / "mnist-worker-0") == {"main": [3, 4, 5]}
    assert all(file.stat().st_size <= 1000 for file in tmp_path.rglob("*.log"))
    kept = texts(tmp_path)
    assert kept == [f"line {number}" for number in range(100 - len(kept), 100)]


def test_a_new_writer_goes_on_in_the_newest_file(tmp_path: Path) -> None:
    one = writer(tmp_path, rotate_at=100)
    for number in range(5):
        one.feed(OUT, f"line {number}\n".encode(), float(number))
    one.close(5.0)

    writer(tmp_path, rotate_at=100).feed(OUT, b"line 5\n", 5.0)

    assert texts(tmp_path) == [f"line {number}" for number in range(6)]


def test_a_full_disk_costs_lines_that_are_counted_and_never_an_error(tmp_path: Path) -> None:
    (tmp_path / "mnist-worker-0").mkdir()
    (tmp_path / "mnist-worker-0" / "main.log").symlink_to("/dev/full")
    one = writer(tmp_path)

    for now in (1.0, 2.0):
        one.feed(OUT, b"lost\n", now)

    assert isinstance(one.lack, errors.DiskFull)
    assert not one.recover(9.0)


def test_the_log_says_how_many_lines_are_missing_when_there_is_room_again(tmp_path: Path) -> None:
    one = writer(tmp_path)
    one.feed(OUT, b"before\n", 1.0)
    with files_that_may_not_grow():
        one.feed(OUT, b"lost\nlost as well\n", 2.0)
    one.feed(OUT, b"after\n", 5.0)
    one.close(6.0)

    assert texts(tmp_path) == [
        "before",
        "bireme: 2 lines (16 bytes) were dropped here: the disk was full for 3 s",
        "after",
    ]
    assert one.dropped == 2


def test_of_a_batch_that_is_cut_only_the_lines_that_do_not_fit_are_counted(tmp_path: Path) -> None:
    one = writer(tmp_path)
    entry = len(encode_entry(LogEntry(1.0, OUT, True, b"fits")))

    with files_that_may_not_grow(beyond=2 * entry + entry // 2):
        one.feed(OUT, b"fits\nfits\ncut!\nlost\n", 1.0)
    one.feed(OUT, b"after\n", 2.0)

    shown = texts(tmp_path)
    assert shown[:2] == ["fits", "fits"]
    assert shown[-2:] == ["bireme: 2 lines (8 bytes) were dropped here: the disk was full for 1 s", "after"]


def test_a_line_that_lost_a_piece_counts_as_one_that_is_missing(tmp_path: Path) -> None:
    one = writer(tmp_path, piece=10)
    with files_that_may_not_grow():
        one.feed(ERR, b"a line that is longer than a piece", 1.0)
    one.feed(ERR, b" and ends\n", 2.0)
    one.close(3.0)

    assert "1 line (30 bytes) was dropped here" in texts(tmp_path)[0]
    assert one.dropped == 1


def test_a_long_line_that_rewinds_on_a_full_disk_is_counted_and_never_an_error(tmp_path: Path) -> None:
    one = writer(tmp_path, piece=10)
    with files_that_may_not_grow():
        one.feed(OUT, b"x" * 25, 1.0)
        one.feed(OUT, b"\ry bar\n\rand\x0bmore\n", 1.1)
    one.feed(OUT, b"after\n", 2.0)
    one.close(3.0)

    assert "2 lines (34 bytes) were dropped here" in texts(tmp_path)[0]
    assert texts(tmp_path)[1:] == ["after"]


@contextmanager
def files_that_may_not_grow(beyond: int = 0) -> Iterator[None]:
    """Makes every write beyond that size fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (beyond, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
