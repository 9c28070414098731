"""Do ranks that cannot talk to each other restore the same checkpoint: the one that rank 0 has chosen."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bireme.runtime.checkpoints.consensus import Patience
from bireme.runtime.checkpoints.manager import Checkpoints, Keep, Owner, Restored
from bireme.runtime.checkpoints.selection import ordered
from bireme.runtime.checkpoints.storage.checkpoint_format import CheckpointHead
from bireme.runtime.checkpoints.storage.folder_store import FolderStore
from bireme.runtime.script.complaints import Complaint, Passing
from tests.unit.checkpoints.building import Heard
from tests.unit.checkpoints.test_ranks import ranks, save

HASTY = Patience(when_awaited=0.2, to_choose=0.5, to_choose_nothing=0.2, heartbeat=0.1, silence=0.6)

LIVELY = Patience(to_begin=600.0, when_awaited=0.2, heartbeat=0.1)


UNHURRIED = Patience(to_begin=600.0, when_awaited=600.0)


def choices(where: Path) -> list[str]:
    return [path.name for path in where.glob(".choice-*")]


def rank_1(where: Path, heard: Heard, attempt: int = 1) -> Checkpoints:
    return Checkpoints(str(where), Owner("run", 1, 2, attempt), Keep(), heard, HASTY)


def step_of(found: Restored | None) -> int | None:
    return found.step if found else None


def test_ranks_without_a_process_group_restore_what_rank_0_chose(tmp_path: Path) -> None:
    with ranks(tmp_path, 2) as gang:
        save(gang, 10)
        save(gang, 20)
    newest, aside = tmp_path / "step-000000020", tmp_path / "aside"

    with ranks(tmp_path, 2, attempt=1) as gang:
        newest.rename(aside)  # rank 0 does not see it, or not whole
        first = gang[0].restore({})
        aside.rename(newest)
        second = gang[1].restore({})

    assert first is not None
    assert second is not None
    assert (first.step, second.step) == (10, 10)


def test_a_rank_that_comes_first_waits_for_rank_0(tmp_path: Path) -> None:
    with ranks(tmp_path, 2) as gang:
        save(gang, 10)

    with ranks(tmp_path, 2, attempt=1) as gang:
        found: list[Restored | None] = []
        thread = threading.Thread(target=lambda: found.append(gang[1].restore({})))
        thread.start()
        time.sleep(0.2)  # there is nothing to see while it waits
        assert not found
        gang[0].restore({})
        thread.join(20)

    assert step_of(found[0]) == 10


def test_each_restore_has_a_choice_of_its_own_and_none_is_left_over(tmp_path: Path) -> None:
    with ranks(tmp_path, 2) as gang:
        nothing = [one.restore({}) for one in gang]
        save(gang, 10)
        assert choices(tmp_path) == []
        first = [step_of(one.restore({})) for one in gang]
        save(gang, 20)
        second = [step_of(one.restore({})) for one in gang]
        save(gang, 30)

    assert (nothing, first, second) == ([None, None], [10, 10], [20, 20])
    assert choices(tmp_path) == []


def test_a_rank_that_is_alone_notes_nothing(tmp_path: Path) -> None:
    with ranks(tmp_path, 1) as (one,):
        save([one], 10)
        assert step_of(one.restore({})) == 10

    assert choices(tmp_path) == []


def test_ranks_that_do_not_share_a_folder_say_so_and_begin(tmp_path: Path) -> None:
    heard = Heard()
    one = rank_1(tmp_path, heard)

    assert one.restore({}) is None

    assert heard == [
        "rank 0 has not said within 0 s which checkpoint it restores; every rank must call restore, with a "
        f"place for checkpoints that all ranks share. This rank goes by what it sees in {tmp_path}"
    ]


def test_a_rank_does_not_guess_where_there_are_checkpoints(tmp_path: Path) -> None:
    with ranks(tmp_path, 2) as gang:
        save(gang, 10)

    with pytest.raises(Complaint, match="rank 0 has not said within 0 s which checkpoint it restores; every"):
        rank_1(tmp_path, Heard()).restore({})


def test_a_rank_that_was_started_again_alone_takes_the_newest(tmp_path: Path) -> None:
    heard = Heard()
    with ranks(tmp_path, 2, patience=HASTY) as gang:
        save(gang, 10)
        found = rank_1(tmp_path, heard, attempt=0).restore({})

    assert step_of(found) == 10
    assert heard == ["rank 0 is past its restore: this rank continues from the newest checkpoint"]


def test_what_rank_0_cannot_restore_the_others_do_not(tmp_path: Path) -> None:
    with ranks(tmp_path, 2) as gang:
        save(gang, 10)
        with pytest.raises(Complaint, match="there is no good checkpoint of step 15"):
            gang[0].restore({}, 15)
        with pytest.raises(Complaint, match="rank 0 cannot restore: there is no good checkpoint of step 15"):
            gang[1].restore({}, 15)


def test_a_rank_that_restored_something_else_than_rank_0_is_ended(tmp_path: Path) -> None:
    heard = Heard()
    with ranks(tmp_path, 2) as gang:
        save(gang, 10)
        save(gang, 20)
    # Rank 1 looks for as long as it takes until it has seen two heartbeats of rank 0.
    with ranks(tmp_path, 2, heard, attempt=1, patience=UNHURRIED) as gang:
        (tmp_path / "step-000000020").rename(tmp_path / "aside")
        gang[0].restore({})
        gang[1].restore({})
        (tmp_path / "aside").rename(tmp_path / "step-000000020")

        # Now rank 0 is started again, and this rank is not.
        again = Checkpoints(str(tmp_path), Owner("run", 0, 2, 1), Keep(), heard, LIVELY)
        assert step_of(again.restore({})) == 20
        again.save(21, {"x": 1}, {}, {})
        gang[1].save(21, {"x": 1}, {}, {})
        gang[1].wait()
        with pytest.raises(Passing, match="rank 0 has restored another checkpoint than this rank"):
            gang[1].save(22, {"x": 1}, {}, {})
        again.close(has_failed=True)


class Slow(FolderStore):
    """A folder from which rank 0 reads until it is told to go on."""

    def __init__(self, where: Path, go_on: threading.Event) -> None:
        super().__init__(str(where))
        self._go_on = go_on

    def open(self, name: str, file: str) -> Any:
        assert self._go_on.wait(60)
        return super().open(name, file)


def test_a_rank_waits_for_as_long_as_rank_0_is_busy_with_reading(tmp_path: Path) -> None:
    heard, go_on = Heard(), threading.Event()
    patience = replace(HASTY, to_tell=0.1)
    with ranks(tmp_path, 2) as gang:
        save(gang, 10)
    with ranks(tmp_path, 2, heard, attempt=1, patience=patience) as gang:
        gang[0]._store = Slow(tmp_path, go_on)
        found: list[Restored | None] = []
        threads = [threading.Thread(target=lambda one=one: found.append(one.restore({}))) for one in gang]
        for one in threads:
            one.start()
        threads[1].join(4 * HASTY.to_choose)
        assert threads[1].is_alive()  # rank 0 was silent about its choice for four times its limit
        go_on.set()
        for one in threads:
            one.join(60)

    assert [step_of(one) for one in found] == [10, 10]
    assert heard == ["waiting until rank 0 says which checkpoint it restores"]


def test_a_rank_does_not_wait_for_ever_for_a_rank_0_that_is_busy(tmp_path: Path) -> None:
    go_on = threading.Event()
    with ranks(tmp_path, 2) as gang:
        save(gang, 10)
    with ranks(tmp_path, 2, attempt=1, patience=replace(HASTY, to_end=1.0)) as gang:
        gang[0]._store = Slow(tmp_path, go_on)
        thread = threading.Thread(target=lambda: gang[0].restore({}))
        thread.start()
        with pytest.raises(Complaint, match="rank 0 has not said within 1 s which checkpoint it restores"):
            gang[1].restore({})
        go_on.set()
        thread.join(60)


def test_a_rank_0_that_has_died_while_it_was_busy_is_not_waited_for(tmp_path: Path) -> None:
    with ranks(tmp_path, 2) as gang:
        save(gang, 10)
    with ranks(tmp_path, 2, attempt=1, patience=HASTY) as gang:
        gang[0]._meeting.note_busy(1)

        with pytest.raises(Complaint, match="rank 0 has not said within 0 s which checkpoint it restores"):
            gang[1].restore({})


def test_ranks_wait_ten_minutes_for_a_rank_0_that_is_late() -> None:
    assert Patience().to_choose == 600.0


def test_ranks_do_not_wait_long_where_rank_0_cannot_note_its_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for an evaluation of what lies in a folder that can only be read."""
    with ranks(tmp_path, 2) as gang:
        save(gang, 10)
    monkeypatch.setattr(FolderStore, "is_writable", lambda _: False)  # root may write everywhere
    heard, began = Heard(), time.monotonic()
    patience = replace(HASTY, to_choose=1000.0, to_choose_nothing=0.2)

    found = Checkpoints(str(tmp_path), Owner("run", 1, 2, 1), Keep(), heard, patience).restore({})

    assert step_of(found) == 10
    assert time.monotonic() - began < 100
    assert "This rank goes by what it sees in" in heard[0]


def head(run: str, serial: int) -> CheckpointHead:
    return CheckpointHead(serial, serial, 0.0, run, 0, 1, f"{serial:x}")


def test_a_run_continues_from_its_own_and_from_what_was_before_it() -> None:
    heads = [head("other", 9), head("mine", 7), head("mine", 5), head("before", 3)]

    assert [one.serial for one in ordered(heads, "mine", False)] == [7, 5, 3]
    assert [one.serial for one in ordered(heads, "new", False)] == [9, 7, 5, 3]
    assert ordered(heads, "new", True) == []
    assert [one.serial for one in ordered(heads, "mine", True)] == [7, 5, 3]
