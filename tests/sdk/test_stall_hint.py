"""A job that printed or reported steadily and does so no more is told of, with the verb that says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from bireme.model.status import ConditionType
from bireme.runs import directory
from bireme.runs.directory import RunDirectory
from bireme.runs.journal import Journal
from bireme.runs.logs.log_entries import (
    Stream,
)
from bireme.runs.logs.log_writer import (
    LogWriter,
)
from bireme.runs.replica_journal import Began, Entry, Ran
from bireme.sdk.local import run_views
from bireme.sdk.local.run_follower import Watch
from tests.cli.commands import until
from tests.unit.runs.run_fixtures import context, desired, ended


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    found, lock = directory.create(tmp_path, desired("mnist"), context())
    lock.close()
    journal: Journal[Entry] = Journal(found.journal_path, Entry)
    journal.append(Began("u", "mnist-worker-0", "worker", 0, 0, 1000.0))
    journal.append(Ran("u", "main", 1, 1, False, 1000.0))
    journal.close()
    return found


def printed(run: RunDirectory, *times: float) -> None:
    writer = LogWriter(run.logs, "mnist-worker-0", "main")
    for moment in times:
        writer.feed(Stream.STDOUT, b"a line\n", moment)
    writer.close(times[-1])


def test_a_job_that_printed_steadily_and_stopped_is_told_of(run: RunDirectory) -> None:
    printed(run, *(1000.0 + 10 * number for number in range(20)))

    assert run_views.stall_hint(run, now=1190.0 + 50) == ""
    assert (
        run_views.stall_hint(run, now=1190.0 + 150)
        == "no progress for 2 min: `bireme stacks mnist` shows where each rank is"
    )


def test_lines_of_an_earlier_start_are_no_pace_of_this_one(run: RunDirectory) -> None:
    printed(run, *(500.0 + 10 * number for number in range(20)))

    assert run_views.stall_hint(run, now=5000.0) == ""


def test_a_follower_says_it_of_a_job_that_has_been_silent_for_long_and_takes_it_back(
    run: RunDirectory,
) -> None:
    now = 0.0
    printed(run, *(1000.0 + 10 * number for number in range(20)))
    watch = Watch(run, clock=lambda: now)
    watch.poll()

    assert watch.glance().stalled == ""
    now = 61.0
    assert watch.glance().stalled.startswith("no progress for ")
    printed(run, 1200.0)
    assert [line.text for line in watch.drain()] == ["a line"]
    printed(run, 1201.0)
    until("the line is seen", lambda: bool(watch.poll()))
    assert watch.glance().stalled == ""
    watch.close()


def test_show_says_it_as_the_reason(run: RunDirectory) -> None:
    printed(run, *(1000.0 + 10 * number for number in range(20)))
    run.write_status(ended(ConditionType.RUNNING))

    assert run_views.view(run).why.startswith("no progress for ")
