"""Does a journal keep every whole record, whatever happened to its writer."""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from bireme import errors
from bireme.runs.journal import Backlog, Journal
from bireme.runs.storage.disk_room import DiskRoom


class Started(Struct, frozen=True, tag="started"):
    replica: str


class Exited(Struct, frozen=True, tag="exited"):
    replica: str
    code: int


def journal(path: Path) -> Journal[Started | Exited]:
    return Journal(path, Started | Exited)


def test_records_come_back_in_order(tmp_path: Path) -> None:
    one = journal(tmp_path / "journal.jsonl")

    one.append(Started("a"))
    one.append_durably(Started("b"), Exited("a", 1))

    assert journal(one.path).read() == (Started("a"), Started("b"), Exited("a", 1))


def test_a_journal_that_nobody_wrote_is_empty(tmp_path: Path) -> None:
    assert journal(tmp_path / "journal.jsonl").read() == ()


@given(cut=st.integers(1, 60))
def test_a_torn_last_line_is_ignored_and_does_not_spoil_the_next(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    before = journal(path)
    before.append(Started("a"))
    whole = path.stat().st_size
    before.append(Exited("a" * 60, 1))
    before.close()
    with path.open("r+b") as file:
        file.truncate(whole + cut)

    assert journal(path).read() == (Started("a"),)
    after = journal(path)
    after.append(Started("b"))

    assert after.read() == (Started("a"), Started("b"))


def test_zeros_from_a_power_cut_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'{"type":"started","replica":"a"}\n' + bytes(100))

    one = journal(path)
    one.append(Started("b"))

    assert one.read() == (Started("a"), Started("b"))


def test_a_full_disk_is_told_with_its_place() -> None:
    with pytest.raises(errors.DiskFull, match="/dev/full"):
        journal(Path("/dev/full")).append(Started("a"))


@contextlib.contextmanager
def room_for(size: int) -> Iterator[None]:
    """A disk that takes no byte beyond a size of any file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@given(size=st.integers(0, 130))
def test_records_that_did_not_fit_come_once_and_in_order_when_there_is_room(
    tmp_path_factory: pytest.TempPathFactory, size: int
) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    records = (Started("a"), Exited("a", 1), Started("b"))
    backlog = Backlog(journal(path), DiskRoom(path.parent, time))

    with room_for(size):
        for record in records:
            backlog.append(record)
        assert backlog.is_behind == (len(journal(path).read()) < len(records))
    backlog.flush()

    assert journal(path).read() == records
    assert not backlog.is_behind


def test_what_is_about_to_happen_is_not_kept_for_later(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    backlog = Backlog(journal(path), DiskRoom(tmp_path, time))

    with room_for(10):
        assert not backlog.precede(Started("a"))
    assert not backlog.is_behind

    assert backlog.precede(Started("b"))
    assert journal(path).read() == (Started("b"),)
