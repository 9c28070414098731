"""Is what a run directory says always whole, whoever is killed when."""

from __future__ import annotations

import fcntl
import itertools
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from bireme import errors
from bireme.model.decisions import Event, EventType
from bireme.model.status import ConditionType, Phase, Status
from bireme.runs import directory
from bireme.runs.directory import RunDirectory
from bireme.runs.run_files import Desired, Machine, RecordedEvent, RunId, parse_run
from tests.unit.runs.run_fixtures import (
    actor,
    context,
    desired,
    ended,
    eventually,
    finish,
    forked,
    kill,
    make_run,
    said,
    tell,
)

KILLS = 50


def test_a_new_run_says_what_it_was_given(tmp_path: Path) -> None:
    run, _ = make_run(tmp_path)

    assert run.path == tmp_path / "runs" / "mnist" / "1"
    assert run.desired() == desired()
    assert run.context() == context()
    assert run.status() == Status()
    assert run.events() == ()
    assert (run.path / "context.json").stat().st_mode & 0o777 == 0o600
    assert run.path.stat().st_mode & 0o777 == 0o700


def test_a_context_does_not_show_its_secrets() -> None:
    assert "hush" not in repr(context())
    assert "1 variables" in repr(context())


def test_a_run_belongs_to_its_machine_even_if_the_host_is_renamed() -> None:
    here = context().machine

    assert context().is_of(Machine(here.host, "another start"))
    assert context().is_of(Machine("renamed", here.boot))
    assert not context().is_of(Machine("elsewhere", "another start"))
    assert not msgspec.structs.replace(context(), machine=Machine("mac")).is_of(Machine("elsewhere"))


def test_a_later_run_of_a_name_has_a_number(tmp_path: Path) -> None:
    first, _ = make_run(tmp_path)
    first.write_status(ended())

    second, _ = make_run(tmp_path)

    assert (str(first.id), str(second.id)) == ("mnist", "mnist#2")
    assert directory.newest(tmp_path, "mnist") is not None
    assert directory.find(tmp_path, "mnist", None).id == second.id
    assert directory.find(tmp_path, "mnist", 1).id == first.id
    assert [run.id for run in directory.every(tmp_path)] == [first.id, second.id]


@pytest.mark.parametrize("text", ["", "#2", "mnist#", "mnist#x", "mnist#0", "../etc", "a/b", ".hidden"])
def test_what_is_no_name_of_a_run_is_refused(text: str) -> None:
    with pytest.raises(errors.BadInput):
        parse_run(text)


def test_names_and_numbers_are_told_apart() -> None:
    assert parse_run("mnist") == ("mnist", None)
    assert parse_run("mnist#12") == ("mnist", 12)


def test_a_name_of_which_an_older_run_goes_on_again_is_refused(tmp_path: Path) -> None:
    first, _ = make_run(tmp_path)
    first.write_status(ended(ConditionType.FAILED))
    second, _ = make_run(tmp_path)
    second.write_status(ended())

    # As a resume does: its runner has not looked yet, so the status still says Failed.
    def resumed(desired: Desired) -> Desired:
        policy = msgspec.structs.replace(desired.job.policy, resumes=1)
        return msgspec.structs.replace(desired, job=msgspec.structs.replace(desired.job, policy=policy))

    first.edit(resumed)

    with pytest.raises(errors.BadInput, match=r"mnist#1 is still active \(Failed, and resumed\)"):
        make_run(tmp_path)
    first.write_status(Status())
    with pytest.raises(errors.BadInput, match=r"mnist#1 is still active \(Created\)"):
        make_run(tmp_path)


def test_a_damaged_older_run_keeps_nobody_from_starting_another(tmp_path: Path) -> None:
    first, lock = make_run(tmp_path)
    first.write_status(ended())
    lock.close()
    second, _ = make_run(tmp_path)
    second.write_status(ended())
    (first.path / "status.json").write_text("{")

    third, _ = make_run(tmp_path)

    assert third.id.number == 3


def test_a_name_whose_run_is_active_is_refused(tmp_path: Path) -> None:
    make_run(tmp_path)

    with pytest.raises(errors.BadInput, match=r"mnist is still active \(Created\)"):
        make_run(tmp_path)


def test_a_run_that_does_not_exist_is_told_with_the_nearest_name(tmp_path: Path) -> None:
    make_run(tmp_path)

    with pytest.raises(errors.BadInput, match="did you mean mnist"):
        directory.find(tmp_path, "mnits", None)
    with pytest.raises(errors.BadInput, match="there is no run mnist#7"):
        directory.find(tmp_path, "mnist", 7)
    with pytest.raises(errors.BadInput, match="there is no run gone"):
        RunDirectory(tmp_path, RunId("gone")).status()


def test_of_many_who_create_the_same_name_one_has_it(tmp_path: Path) -> None:
    actors = [actor("create", tmp_path, "mnist") for _ in range(6)]
    for one in actors:
        assert said(one) == "ready"

    for one in actors:
        tell(one, "go")
    answers = sorted(said(one) for one in actors)

    for one in actors:
        assert finish(one) == 0
    assert answers == ["created mnist"] + ["refused mnist is still active (Created)"] * 5
    assert [run.id for run in directory.every(tmp_path)] == [RunId("mnist")]


def test_what_a_killed_creator_left_is_cleared_and_never_seen(tmp_path: Path) -> None:
    half = tmp_path / "runs" / "mnist" / ".new-1234"
    half.mkdir(parents=True)
    (half / "job.json").write_text("{")

    assert directory.every(tmp_path) == ()
    run, _ = make_run(tmp_path)

    assert run.id == RunId("mnist")
    assert not half.exists()


def test_a_deleted_run_is_gone_and_its_name_free(tmp_path: Path) -> None:
    run, lock = make_run(tmp_path)
    lock.close()

    run.delete()
    run.delete()

    assert not run.path.parent.exists()
    assert make_run(tmp_path)[0].id == RunId("mnist")


def test_two_editors_at_once_both_have_their_changes(tmp_path: Path) -> None:
    run, _ = make_run(tmp_path)

    editors = [actor("edit", tmp_path, "mnist", label, 20) for label in ("a", "b", "c")]
    for one in editors:
        assert finish(one) == 0

    assert set(run.desired().job.labels) == {f"{label}-{n}" for label in "abc" for n in range(20)}
    assert run.desired().generation == 61


def test_an_edit_that_changes_nothing_is_not_written(tmp_path: Path) -> None:
    run, _ = make_run(tmp_path)

    assert run.edit(lambda wanted: wanted).generation == 1


def test_an_edit_that_fails_changes_nothing(tmp_path: Path) -> None:
    run, _ = make_run(tmp_path)

    def refuse(wanted: Desired) -> Desired:
        raise errors.BadInput("no")

    with pytest.raises(errors.BadInput, match="no"):
        run.edit(refuse)

    assert run.desired() == desired()
    assert run.edit(lambda wanted: msgspec.structs.replace(wanted, deleted=True)).generation == 2


def write_statuses(run: RunDirectory, say: Callable[[str], None]) -> None:
    """Replaces a status and appends an event as quickly as it can, and says what is known to be there."""
    assert run.hold()
    for attempt in itertools.count(run.status().attempt + 1):
        run.write_status(Status(attempt=attempt, waiting="x" * 5000))
        run.append_events([Event(EventType.NORMAL, "Tried", f"attempt {attempt}")], float(attempt))
        say(str(attempt))


def test_a_status_survives_writers_that_are_killed(tmp_path: Path) -> None:
    run, lock = make_run(tmp_path)
    lock.close()

    for round in range(KILLS):
        writer = forked(lambda say: write_statuses(run, say))
        known = int(writer.heard())
        deadline = (
            time.perf_counter() + round * 0.0002
        )  # each time a little further into the writes that follow
        while time.perf_counter() < deadline:
            pass
        writer.kill()

        assert run.status().attempt >= known
        assert run.status().waiting == "x" * 5000
        assert not run.is_held()

    told = [int(event.time) for event in run.events()]
    assert told == sorted(set(told))
    with run.hold() or pytest.fail("nobody should hold it"):
        assert not list(run.path.glob(".*.tmp"))


def test_events_come_back_with_identical_ones_in_a_row_counted(tmp_path: Path) -> None:
    run, _ = make_run(tmp_path)
    waits = Event(EventType.NORMAL, "Queued", "needs 2 cpus")
    fails = Event(EventType.WARNING, "Failed", "exit code 1")

    run.append_events([waits], 1.0)
    run.append_events([waits, fails], 2.0)
    run.append_events([], 3.0)
    run.append_events([waits], 4.0)

    assert run.events() == (
        RecordedEvent(2.0, EventType.NORMAL, "Queued", "needs 2 cpus", 2),
        RecordedEvent(2.0, EventType.WARNING, "Failed", "exit code 1", 1),
        RecordedEvent(4.0, EventType.NORMAL, "Queued", "needs 2 cpus", 1),
    )


@pytest.mark.parametrize("content", [b"", b"{", b'{"attempt": "one"}', b"\xff\xfe", b"null"])
def test_a_damaged_status_is_told_and_not_a_traceback(tmp_path: Path, content: bytes) -> None:
    run, _ = make_run(tmp_path)
    (run.path / "status.json").write_bytes(content)

    with pytest.raises(errors.OurBug, match=r"status\.json is damaged"):
        run.status()


def test_a_missing_status_is_told(tmp_path: Path) -> None:
    run, _ = make_run(tmp_path)
    (run.path / "status.json").unlink()

    with pytest.raises(errors.OurBug, match=r"status\.json is missing"):
        run.status()


def test_a_full_disk_keeps_the_old_status_and_is_told(tmp_path: Path) -> None:
    run, _ = make_run(tmp_path)

    writer = actor("fill_disk", tmp_path, "mnist")

    assert said(writer).startswith(f"cannot write {run.path / 'status.json'}: File too large | make room")
    assert finish(writer) == 0
    assert run.status() == Status()
    assert not list(run.path.glob(".*.tmp"))


def test_one_process_holds_a_run_until_it_is_killed(tmp_path: Path) -> None:
    run, lock = make_run(tmp_path)
    assert run.is_held()
    assert run.hold() is None
    lock.close()
    assert not run.is_held()

    holder = actor("hold", tmp_path, "mnist")
    assert said(holder) == "held"
    assert run.is_held()
    other = actor("hold", tmp_path, "mnist")
    assert said(other) == "refused"
    kill(holder)
    kill(other)

    assert not run.is_held()


def test_a_program_that_the_holder_becomes_does_not_hold_the_run(tmp_path: Path) -> None:
    run, lock = make_run(tmp_path)
    lock.close()

    holder = actor("hold_and_exec", tmp_path, "mnist")
    assert said(holder) == "replaced"

    assert not run.is_held()
    kill(holder)


def test_a_forked_child_takes_over_the_lock_of_its_parent(tmp_path: Path) -> None:
    run, lock = make_run(tmp_path)
    lock.close()

    parent = actor("hold_and_fork", tmp_path, "mnist")
    child = int(said(parent).split()[1])
    parent.wait(timeout=60)

    assert run.is_held()
    os.kill(child, signal.SIGKILL)
    eventually(lambda: not run.is_held())
    parent.communicate()


def look_forever(run: RunDirectory, say: Callable[[str], None]) -> None:
    parent = os.getppid()
    say("looking")
    while os.getppid() == parent:
        run.is_held()


def test_looking_at_a_lock_does_not_keep_anybody_from_taking_it(tmp_path: Path) -> None:
    run, lock = make_run(tmp_path)
    lock.close()

    looker = forked(lambda say: look_forever(run, say))
    assert looker.heard() == "looking"
    for _ in range(2000):
        lock = run.hold() or pytest.fail("somebody who only looked was taken for a holder")
        lock.close()
    looker.kill()


def test_somebody_who_looks_for_long_is_waited_for(tmp_path: Path) -> None:
    """As on a busy machine, where whoever looks may not get to the end of it."""
    run, lock = make_run(tmp_path)
    lock.close()
    looking = os.open(run.path / "lock", os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    threading.Timer(0.3, os.close, [looking]).start()

    taken = run.hold()

    assert taken is not None
    taken.close()


def test_a_wake_reaches_the_runner_and_never_blocks(tmp_path: Path) -> None:
    run, _ = make_run(tmp_path)
    assert not run.wake()

    ear = run.wake_fd()
    assert not ear.drain()
    for _ in range(70_000):  # more than a pipe holds
        assert run.wake()

    assert select.select([ear], [], [], 0)[0]
    assert ear.drain()
    assert not select.select([ear], [], [], 0)[0]
    ear.close()
    assert not run.wake()


def test_an_edit_wakes_the_runner(tmp_path: Path) -> None:
    run, _ = make_run(tmp_path)
    ear = run.wake_fd()

    run.edit(lambda wanted: msgspec.structs.replace(wanted, deleted=True))

    assert ear.drain()


def test_without_named_pipes_a_runner_goes_on_unwoken(tmp_path: Path) -> None:
    run, _ = make_run(tmp_path)
    (run.path / "wake").unlink()

    ear = run.wake_fd()

    assert not run.wake()
    assert not ear.drain()
    ear.close()


@pytest.mark.parametrize(
    ("status", "active"),
    [
        (Status(), True),
        (ended(ConditionType.SUSPENDED), True),
        (ended(ConditionType.SUCCEEDED), False),
        (ended(ConditionType.FAILED), False),
    ],
)
def test_a_run_is_active_until_it_has_ended(tmp_path: Path, status: Status, active: bool) -> None:
    run, _ = make_run(tmp_path)

    run.write_status(status)

    assert run.is_active() is active
    assert run.status().phase in Phase


def test_the_options_of_a_run_of_an_earlier_version_are_read(tmp_path: Path) -> None:
    run, _ = make_run(tmp_path)
    stored = msgspec.json.decode((run.path / "context.json").read_bytes())
    del stored["options"]
    earlier = {"maps": {"/opt": "/src"}, "volumes": {"data": "/mnist"}, "command": ["run"], "warm": False}
    (run.path / "context.json").write_bytes(msgspec.json.encode({**stored, **earlier, "format": 1}))

    options = run.context().options

    assert (options.maps, options.volumes) == ({"/opt": "/src"}, {"data": "/mnist"})
    assert (options.command, options.warm, options.env) == (("run",), False, {})
