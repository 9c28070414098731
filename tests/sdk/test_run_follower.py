"""A follower sees every line once, soon, and looks seldom when nothing happens."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from bireme.model.replicas import Observation, Replica, ReplicaPhase
from bireme.model.status import Condition, ConditionType, Phase, Status
from bireme.runs import directory
from bireme.runs.directory import RunDirectory
from bireme.runs.logs.log_entries import (
    Stream,
)
from bireme.runs.logs.log_writer import (
    LogWriter,
)
from bireme.runs.run_files import Desired, Machine, RunContext
from bireme.runs.storage import files
from bireme.runs.storage.locks import FileLock
from bireme.sdk.backends import LATER, SELDOM, SOON, Pace
from bireme.sdk.local.run_follower import Watch
from tests.unit import build

JOB = build.job("PyTorchJob", build.role("Worker", 2))


def _run(home: Path) -> RunDirectory:
    context = RunContext(cwd="/", python="python", machine=Machine("elsewhere"), created=0.0)
    run, lock = directory.create(home, Desired(JOB, {}), context)
    lock.close()
    return run


def _poll(watch: Watch) -> list[str]:
    """Polls until lines come."""
    end = time.monotonic() + 10
    while not (lines := watch.poll()):
        assert time.monotonic() < end
    return [line.text for line in lines]


def test_each_line_is_seen_once_in_files_old_and_new(tmp_path: Path) -> None:
    run = _run(tmp_path)
    watch = Watch(run)
    first = LogWriter(run.logs, "mnist-worker-0", "main")
    assert watch.poll() == []

    first.feed(Stream.STDOUT, b"one\n", 1.0)
    assert _poll(watch) == ["one"]
    second = LogWriter(run.logs, "mnist-worker-1", "main")
    second.feed(Stream.STDOUT, b"two\n", 2.0)
    assert _poll(watch) == ["two"]
    first.feed(Stream.STDOUT, b"three\n", 3.0)
    assert _poll(watch) == ["three"]
    assert list(watch.drain()) == []

    first.close(4.0)
    second.close(4.0)
    watch.close()


def test_a_glance_counts_what_is_ready_in_this_attempt(tmp_path: Path) -> None:
    run = _run(tmp_path)
    watch = Watch(run)
    running = Condition(ConditionType.RUNNING, True, "", "", 1.0, 1.0)
    run.write_status(Status(conditions=(running,), attempt=1))
    seen = Observation(
        (
            Replica("mnist-worker-0", "worker", 0, 1, "u", ReplicaPhase.RUNNING, ready=True),
            Replica("mnist-worker-1", "worker", 1, 0, "v", ReplicaPhase.RUNNING, ready=True),
        )
    )
    files.replace_quickly(run.path / "seen.json", msgspec.json.encode(seen))

    watch.refresh()
    glance = watch.glance()

    assert (glance.phase, glance.ready, glance.total, glance.attempt) == (Phase.RUNNING, 1, 2, 1)
    assert not watch.is_over()
    watch.close()


def test_a_run_is_over_when_it_has_ended_and_nobody_holds_it(tmp_path: Path) -> None:
    run = _run(tmp_path)
    watch = Watch(run)
    ended = Condition(ConditionType.SUCCEEDED, True, "", "", 1.0, 1.0)

    with run.hold() or _never():
        run.write_status(Status(conditions=(ended,)))
        watch.refresh()
        assert not watch.is_over()

    assert watch.is_over()
    watch.close()


def test_a_run_that_was_removed_is_noticed(tmp_path: Path) -> None:
    run = _run(tmp_path)
    watch = Watch(run)
    assert watch.exists()

    run.delete()
    watch.refresh()

    assert not watch.exists()
    watch.close()


def test_looks_are_frequent_at_first_and_seldom_in_silence() -> None:
    now = 0.0
    pace = Pace(lambda: now)

    assert pace.pause(False) == SOON
    now = 3.0
    assert pace.pause(True) == LATER
    now = 9.0
    assert pace.pause(False) == SELDOM
    assert pace.pause(True) == LATER


def _never() -> FileLock:
    raise AssertionError("somebody else holds the run")
