"""Who may take a place of checkpoints, by its mark; and who wins where several try."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from bireme.runtime.checkpoints.storage import folder_marks, owner_marks, ownership
from bireme.runtime.checkpoints.storage.folder_marks import FolderMarks
from bireme.runtime.checkpoints.storage.owner_marks import Malformed, MarkVerdict, OwnerMark
from bireme.runtime.checkpoints.storage.ownership import Overtaken, Ownership, OwnershipClaim
from bireme.runtime.checkpoints.values import Owner
from bireme.runtime.script.complaints import Complaint
from tests.unit.checkpoints.building import Heard

MINE = Owner("mine", attempt=2)
PERIOD = 0.1
# Of a process of which nobody here can know whether it lives.
MARK = OwnerMark("mine", attempt=2, session="0123", generation=4, host="node", pid=7, period=PERIOD)


def judged(mark: OwnerMark | None, is_meant: bool = True, is_dead: bool = False) -> MarkVerdict:
    return owner_marks.judge(mark, MINE, is_meant, is_dead)


def test_a_place_without_an_owner_is_taken() -> None:
    assert judged(None, is_meant=False) is MarkVerdict.TAKE
    assert judged(replace(MARK, is_released=True), is_meant=False) is MarkVerdict.TAKE
    assert judged(MARK, is_meant=False, is_dead=True) is MarkVerdict.TAKE


def test_a_later_attempt_of_the_same_run_does_not_wait() -> None:
    assert judged(replace(MARK, attempt=1)) is MarkVerdict.TAKE


def test_outside_of_bireme_a_higher_restart_count_does_not_take_the_place_of_a_live_torchrun() -> None:
    """Two of them with torchrun's defaults have the same launch, and each counts its own restarts."""
    mark = replace(MARK, attempt=1, launch="aa")

    assert (
        owner_marks.judge(mark, MINE._replace(launch="aa"), is_meant=True, is_dead=False) is MarkVerdict.WATCH
    )
    assert judged(mark) is MarkVerdict.WATCH
    assert (
        owner_marks.judge(replace(MARK, attempt=1), MINE._replace(launch="aa"), True, False)
        is MarkVerdict.WATCH
    )


@pytest.mark.parametrize(
    "other",
    [{"attempt": 2}, {"attempt": 3}, {"attempt": 1, "launch": "bb"}, {"attempt": 1, "run": "other"}],
    ids=str,
)
def test_any_other_process_is_watched(other: dict[str, object]) -> None:
    mark = OwnerMark(**{**vars(MARK), **other})

    assert judged(mark) is MarkVerdict.WATCH


def test_another_run_s_place_is_refused_to_a_script_that_did_not_restore() -> None:
    other = replace(MARK, run="other")

    assert judged(other, is_meant=False) is MarkVerdict.FOREIGN
    assert judged(replace(other, is_released=True), is_meant=False) is MarkVerdict.FOREIGN
    assert judged(replace(other, is_released=True)) is MarkVerdict.TAKE


def test_a_process_that_has_ended_is_known_to_be_dead_on_its_own_machine_alone() -> None:
    ended = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    mark = replace(
        owner_marks.made(MINE, 1, PERIOD), pid=ended.pid, started=owner_marks._started(ended.pid) or 0
    )

    assert not owner_marks.is_dead(mark)
    ended.communicate()
    assert owner_marks.is_dead(mark)
    assert not owner_marks.is_dead(replace(mark, host="elsewhere"))
    assert not owner_marks.is_dead(replace(mark, boot="of another kernel"))
    assert not owner_marks.is_dead(replace(mark, boot=""))


def test_a_number_that_another_process_has_now_is_not_its_owner() -> None:
    mine = owner_marks.made(MINE, 1, PERIOD)

    assert not owner_marks.is_dead(mine)
    assert owner_marks.is_dead(replace(mine, started=mine.started - 1))


def test_where_nobody_can_list_processes_the_lock_tells_that_an_owner_is_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on macOS, which has no /proc."""
    unlisted = replace(owner_marks.made(MINE, 1, PERIOD), boot="", started=0)

    assert not owner_marks.is_same_kernel(unlisted)  # of another namespace, perhaps of another machine
    monkeypatch.setattr(owner_marks, "boot", str)
    assert owner_marks.is_same_kernel(unlisted)
    assert not owner_marks.is_same_kernel(replace(unlisted, host="elsewhere"))


def set_mark(where: Path, mark: OwnerMark) -> FolderMarks:
    of = FolderMarks(str(where))
    of.take(mark, of.read())
    return of


def taken(where: Path, owner: Owner = MINE, heard: Heard | None = None) -> Ownership:
    claim = OwnershipClaim(owner, True, PERIOD, 6 * PERIOD)
    return ownership.take(FolderMarks(str(where)), claim, lambda: 0, heard if heard is not None else Heard())


def test_a_silent_owner_is_replaced_after_a_while(tmp_path: Path) -> None:
    set_mark(tmp_path, replace(MARK, run="other"))
    heard = Heard()

    ownership = taken(tmp_path, heard=heard)

    assert ownership.generation == 5
    assert heard == [f"{tmp_path} held the checkpoints of run other; from now on it is this run's"]
    assert os.listdir(tmp_path) == ["owner-000005.json"]
    ownership.release()


def test_a_run_without_a_name_is_told_by_its_process(tmp_path: Path) -> None:
    """Outside of Bireme a run is named after its place."""
    set_mark(tmp_path, replace(MARK, run=str(tmp_path), launch="aa"))
    heard = Heard()

    claim = OwnershipClaim(Owner(str(tmp_path), launch="aa"), True, PERIOD, 1.5)
    ownership.take(FolderMarks(str(tmp_path)), claim, lambda: 0, heard).release()

    assert heard[0].startswith(f"{tmp_path} was written by process 7 on node, which did not say that")


def test_an_owner_that_renews_its_mark_is_not_replaced(tmp_path: Path) -> None:
    first = taken(tmp_path, Owner("other"))
    first._mark = replace(first._mark, boot="elsewhere")  # from now on nobody here knows if it lives
    first.confirm()

    with pytest.raises(
        Complaint, match=r"is being written by run other \(process \d+ on .*, alive 0 s ago\)"
    ):
        taken(tmp_path)

    assert first.confirm()
    first.release()


def test_an_owner_that_was_replaced_finds_out_by_itself(tmp_path: Path) -> None:
    first = taken(tmp_path)
    second = taken(tmp_path, MINE._replace(attempt=3))

    first._thread.join(20)

    assert first.lost_to is not None
    assert first.lost_to.session == second.session
    assert not first.confirm()
    assert second.confirm()
    first.release()
    assert os.listdir(tmp_path) == ["owner-000002.json"]
    second.release()


def test_a_place_that_was_given_free_is_taken_at_once(tmp_path: Path) -> None:
    taken(tmp_path, Owner("other")).release()

    ownership = taken(tmp_path)

    assert ownership.generation == 2
    ownership.release()


def test_of_many_that_take_a_place_at_once_one_wins(tmp_path: Path) -> None:
    of = set_mark(tmp_path, MARK)
    for number in range(20):
        seen = of.read()
        assert seen is not None
        won: list[str] = []

        def run(seen: ownership.SeenMark = seen, won: list[str] = won) -> None:
            mark = owner_marks.made(MINE, seen.mark.generation + 1, PERIOD)
            with suppress(Overtaken):
                won.append(of.take(mark, seen).mark.session)

        threads = [threading.Thread(target=run) for _ in range(6)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        now = of.read()
        assert now is not None
        assert won == [now.mark.session], f"round {number}"


def test_a_mark_that_is_none_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "owner-000003.json").write_text("[1]")

    with pytest.raises(
        Complaint,
        match=r"/owner-000003\.json is damaged: it does not say which process writes there; "
        "remove it if none does",
    ):
        taken(tmp_path)

    assert (tmp_path / "owner-000003.json").read_text() == "[1]"


def test_a_mark_that_points_nowhere_is_an_error_of_the_disk(tmp_path: Path) -> None:
    (tmp_path / "owner-000003.json").symlink_to(tmp_path / "gone")

    with pytest.raises(OSError, match=r"owner-000003\.json is listed, and cannot be opened") as caught:
        FolderMarks(str(tmp_path)).read()

    assert caught.value.errno == errno.ESTALE


def test_a_slow_look_at_the_checkpoints_does_not_let_a_zombie_keep_its_place(tmp_path: Path) -> None:
    zombie = taken(tmp_path, MINE._replace(attempt=1))

    def slow() -> int:
        """Ends once the zombie has renewed its mark."""
        seen = zombie._marks.read()
        wait_until(lambda: zombie._marks.read() != seen)
        return 7

    successor = ownership.take(FolderMarks(str(tmp_path)), OwnershipClaim(MINE, period=PERIOD), slow, Heard())

    assert successor.generation == 8
    zombie.release()
    successor.release()


def wait_until(holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.005)


def test_what_an_earlier_bireme_has_written_is_understood(tmp_path: Path) -> None:
    old = {"run": "mine", "attempt": 1, "host": os.uname().nodename, "pid": 1}
    (tmp_path / "owner.json").write_text(json.dumps(old))

    ownership = folder_marks.take(str(tmp_path), OwnershipClaim(MINE), lambda: 0, Heard())

    assert sorted(os.listdir(tmp_path)) == ["owner-000001.json", "owner.lock"]
    ownership.release()


@pytest.mark.parametrize(
    "change",
    [
        {"run": 1},
        {"attempt": -1},
        {"attempt": True},
        {"attempt": "1"},
        {"generation": 1 << 40},
        {"session": "../x"},
        {"launch": "no hex"},
        {"is_released": 1},
        {"period": 1e9},
        {"host": "x" * 5000},
        {"origin": 3},
        {"pid": None},
    ],
    ids=str,
)
def test_a_mark_of_wrong_types_is_none(change: dict[str, object]) -> None:
    with pytest.raises(Malformed):
        owner_marks.read(json.dumps({**vars(MARK), **change}).encode())


def test_a_mark_reads_as_it_was_written_and_may_know_more() -> None:
    later = {**json.loads(owner_marks.write(MARK)), "news": 1}

    assert owner_marks.read(json.dumps(later).encode()) == MARK
