"""What lies in a home where a file of ours should be: nothing is waited for, believed or removed."""

from __future__ import annotations

import os
import sqlite3
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from bireme import errors
from bireme.backends.local.warm.zygote_files import Lesson
from bireme.backends.local.warm.zygote_pool import ZygotePool
from bireme.runs import directory
from bireme.runs.journal import Journal
from bireme.runs.ledger import Ledger
from bireme.runs.logs import log_reader
from bireme.runs.metrics import metric_reader
from bireme.runs.run_files import RecordedEvent, RunId, parse_run
from bireme.runs.storage import files
from bireme.runs.storage.database import place
from bireme.runtime.records import record_reader
from bireme.sdk.cluster.clusters import FILE, Book
from bireme.sdk.local import run_views
from tests.unit.runs.run_fixtures import gang, make_run

RUN_FILES = ("status.json", "job.json", "context.json", "seen.json", "journal.jsonl", "events.jsonl")
LIMIT = pytest.mark.timeout(60)


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_folder(path: Path) -> None:
    path.mkdir()


def a_loop(path: Path) -> None:
    path.symlink_to(path.name)


def an_endless_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


INSTEAD = pytest.mark.parametrize("put", [a_pipe, a_folder, a_loop, an_endless_device])


@LIMIT
@INSTEAD
@pytest.mark.parametrize("name", [*RUN_FILES, "reports/mnist-worker-0.0.json"])
def test_a_run_is_shown_or_refused_with_something_else_in_the_place_of_its_file(
    tmp_path: Path, name: str, put: Callable[[Path], None]
) -> None:
    run, lock = make_run(tmp_path)
    lock.close()
    (run.path / "reports").mkdir()
    (run.path / name).unlink(missing_ok=True)
    put(run.path / name)

    if name in ("seen.json", "reports/mnist-worker-0.0.json"):
        assert run_views.view(run).id == "mnist"
    else:
        with pytest.raises(errors.BiremeError, match=name):
            run_views.view(run)
    assert [row.id.name for row in Ledger(tmp_path).runs()] == ["mnist"]


@LIMIT
@INSTEAD
def test_a_log_that_is_no_plain_file_is_refused(tmp_path: Path, put: Callable[[Path], None]) -> None:
    (tmp_path / "worker-0").mkdir()
    put(tmp_path / "worker-0" / "main.log")

    with pytest.raises(errors.BiremeError, match="worker-0"):
        list(log_reader.read(tmp_path))
    with pytest.raises(errors.BiremeError, match="worker-0"):
        log_reader.tail(tmp_path, 3)


def test_a_file_in_the_place_of_the_logs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("x")

    with pytest.raises(errors.BiremeError, match="logs"):
        list(log_reader.read(tmp_path / "logs"))


def test_a_log_without_an_end_of_line_takes_little_memory(tmp_path: Path) -> None:
    (tmp_path / "worker-0").mkdir()
    with open(tmp_path / "worker-0" / "main.log", "wb") as log:
        log.truncate(200 << 20)
        log.seek(0, os.SEEK_END)
        log.write(b"\n2026-11-15T23:08:28.123456000Z stdout F after all\n")

    tracemalloc.start()
    lines = [line.text for line in log_reader.read(tmp_path)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert lines == ["after all"]
    assert peak < 32 << 20


@LIMIT
@INSTEAD
def test_records_and_small_files_that_are_no_plain_files_count_as_empty(
    tmp_path: Path, put: Callable[[Path], None]
) -> None:
    stable = ZygotePool(tmp_path)
    stable.learn("python", "train.py", Lesson(("torch",)))
    (lesson,) = tmp_path.glob("zygotes/lessons/*")
    lesson.unlink()
    for path in (lesson, tmp_path / FILE, tmp_path / record_reader.file_name(0, 0)):
        put(path)

    assert stable.learnt("python", "train.py") == Lesson()
    assert Book(tmp_path).read() == ()
    with suppress(errors.BiremeError):
        assert metric_reader.RecordFollower(tmp_path).poll() == []


def test_a_length_beyond_the_file_is_not_allocated(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    with open(path, "wb") as file:
        file.truncate(1 << 40)

    tracemalloc.start()
    with pytest.raises(OSError, match="larger than"):
        files.read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 1 << 20


@pytest.mark.parametrize("name", ["9" * 30, "٣", "007", "²"])
def test_a_folder_that_is_no_run_does_not_break_the_list(tmp_path: Path, name: str) -> None:
    _, lock = make_run(tmp_path)
    lock.close()
    (directory.runs_folder(tmp_path) / "mnist" / name).mkdir()

    assert [row.id for row in Ledger(tmp_path).runs()] == [RunId("mnist", 1)]


def test_a_name_that_is_not_utf8_does_not_break_the_list(tmp_path: Path) -> None:
    _, lock = make_run(tmp_path)
    lock.close()
    os.makedirs(os.fsencode(directory.runs_folder(tmp_path)) + b"/m\xff/1")

    assert [row.id for row in Ledger(tmp_path).runs()] == [RunId("mnist", 1)]


def test_a_number_of_a_run_that_is_far_too_long_is_refused() -> None:
    with pytest.raises(errors.BadInput, match="not the name of a run"):
        parse_run("mnist#" + "9" * 5000)


def test_a_claim_that_names_a_folder_elsewhere_removes_nothing_there(tmp_path: Path) -> None:
    home = tmp_path / "home"
    run, lock = make_run(home)
    ledger = Ledger(home)
    ledger.admit(run.id, 0, gang(1), now=1.0)
    victim = tmp_path / "victim" / "1" / "claim.json"
    victim.parent.mkdir(parents=True)
    victim.write_text("mine")
    claim = msgspec.json.decode(run.claim_path.read_bytes())
    claim["run"] = {"name": "../../victim", "number": 1}
    run.claim_path.write_bytes(msgspec.json.encode(claim))
    lock.close()
    place(home).unlink()

    other, held = make_run(home, "other")
    ledger.admit(other.id, 0, gang(1), now=2.0)
    held.close()

    assert victim.read_text() == "mine"


def test_a_damaged_claim_in_the_database_is_made_anew_from_the_run(tmp_path: Path) -> None:
    run, lock = make_run(tmp_path)
    ledger = Ledger(tmp_path)
    ledger.admit(run.id, 0, gang(1), now=1.0)
    with sqlite3.connect(place(tmp_path)) as connection:
        connection.execute("UPDATE claims SET record = ?", (b'{"run": \xff',))
    connection.close()

    assert [claim.run for claim in ledger.holders()] == [run.id]
    lock.close()


def test_a_journal_goes_on_after_a_line_that_is_too_long(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    event = b'{"time": 1.0, "type": "Normal", "reason": "x", "message": "y"}\n'
    path.write_bytes(
        event + b"[" * (40 << 20) + b"\n" + b"[" * 50_000 + b"\n" + b'{"time": "\xff"}\n' + event
    )

    journal: Journal[RecordedEvent] = Journal(path, RecordedEvent)

    assert len(journal.read()) == 2
