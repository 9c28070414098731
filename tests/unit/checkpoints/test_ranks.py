"""Do several ranks make one checkpoint, and does each find its own again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bireme.runtime.checkpoints.consensus import Patience
from bireme.runtime.checkpoints.manager import Checkpoints, Keep, Owner, listed
from bireme.runtime.checkpoints.storage import owner_marks
from bireme.runtime.checkpoints.storage.folder_marks import FolderMarks
from bireme.runtime.checkpoints.storage.folder_store import FolderStore
from tests.unit.checkpoints.building import Heard

SHORT = Patience(to_begin=0.3, to_end=20.0, when_awaited=0.2, after_absence=0.01)


@contextmanager
def ranks(
    where: Path, count: int, heard: Heard | None = None, attempt: int = 0, patience: Patience | None = None
) -> Iterator[list[Checkpoints]]:
    ears = Heard() if heard is None else heard
    with ExitStack() as stack:
        made = []
        for rank in range(count):
            owner = Owner("run", rank, count, attempt)
            made.append(Checkpoints(str(where), owner, Keep(), ears, patience))
            stack.callback(made[-1].close)
        yield made


def save(gang: list[Checkpoints], step: int, value: object = "common") -> None:
    for rank, one in reversed(list(enumerate(gang))):
        one.save(step, {"x": value}, {"rank": rank, "of": step}, {})
    for one in gang:
        one.wait()


def test_parts_are_of_rank_0_and_each_rank_finds_its_own(tmp_path: Path) -> None:
    heard = Heard()
    with ranks(tmp_path, 3, heard) as gang:
        save(gang, 10)
        save(gang, 20)
        restored = [one.restore({}) for one in gang]

    assert [one and one.own for one in restored] == [{"rank": rank, "of": 20} for rank in range(3)]
    assert [one and one.values for one in restored] == [{"x": "common"}] * 3
    assert heard == []
    assert [one.world_size for one in listed(str(tmp_path))] == [3, 3]


LONG = Patience(to_begin=60.0, to_end=60.0, when_awaited=0.2)


def test_after_a_failure_rank_0_does_not_wait_for_who_is_dead(tmp_path: Path) -> None:
    heard = Heard()
    rank_0 = Checkpoints(str(tmp_path), Owner("run", 0, 2), Keep(), heard, LONG)
    rank_0.save(10, {"x": 1}, {}, {})
    began = time.monotonic()

    rank_0.close(has_failed=True)

    assert time.monotonic() - began < 20
    assert listed(str(tmp_path)) == ()
    assert "rank 1 does not go on" in heard[0]


def test_after_a_failure_nobody_waits_for_a_rank_0_that_is_dead(tmp_path: Path) -> None:
    heard = Heard()
    mark = owner_marks.made(Owner("run"), 1, 5.0)
    FolderMarks(str(tmp_path)).take(mark, None)
    FolderStore(str(tmp_path)).begin(Owner("run"), mark.session, 10, "abcd")
    rank_1 = Checkpoints(str(tmp_path), Owner("run", 1, 2), Keep(), heard, LONG)
    rank_1.save(10, {"x": 1}, {}, {})
    began = time.monotonic()

    rank_1.close(has_failed=True)

    assert time.monotonic() - began < 20
    assert "rank 0 does not go on" in heard[0]


def test_the_world_may_grow_and_shrink(tmp_path: Path) -> None:
    with ranks(tmp_path, 2) as gang:
        save(gang, 10)
    with ranks(tmp_path, 3, attempt=1) as gang:
        grown = [one.restore({}) for one in gang]
        save(gang, 20)
    with ranks(tmp_path, 1, attempt=2) as gang:
        shrunk = [one.restore({}) for one in gang]

    assert [one and (one.own, one.world_size) for one in grown] == [
        ({"rank": 0, "of": 10}, 2),
        ({"rank": 1, "of": 10}, 2),
        ({}, 2),
    ]
    assert [one and (one.own, one.world_size) for one in shrunk] == [({"rank": 0, "of": 20}, 3)]


def test_what_a_dead_life_has_staged_never_gets_into_a_checkpoint(tmp_path: Path) -> None:
    """A rank of the same attempt died after it had signed; its successors save the same step."""
    stale = tmp_path / f".staging-{owner_marks.key('run')}-0-00bb-10-00aa"
    with ranks(tmp_path, 2) as gang:
        save(gang, 10, "dead")
    (tmp_path / "step-000000010").rename(stale)
    (stale / "checkpoint.json").unlink()

    with ranks(tmp_path, 2) as gang:
        gang[1].save(10, {"x": "living"}, {"life": 2}, {})
        gang[0].save(10, {"x": "living"}, {"life": 2}, {})
        restored = [one.restore({}) for one in gang]

    assert [one and (one.values, one.own) for one in restored] == [({"x": "living"}, {"life": 2})] * 2
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".choice-")) == [
        "owner-000002.json",
        "owner.lock",
        "step-000000010",
    ]


def test_a_checkpoint_is_kept_without_a_rank_that_never_saves(tmp_path: Path) -> None:
    heard = Heard()
    with ranks(tmp_path, 2, heard, patience=SHORT) as gang:
        gang[0].save(10, {"x": 1}, {"rank": 0}, {})
        gang[0].save(20, {"x": 2}, {"rank": 0}, {})
        gang[0].wait()
        restored = [one.restore({}) for one in gang]

    assert [one and (one.values, one.own) for one in restored] == [({"x": 2}, {"rank": 0}), ({"x": 2}, {})]
    assert len(heard) == 2
    assert "rank 1 did not save: every rank must call save" in heard[0]


def test_several_ranks_that_do_not_save_are_named(tmp_path: Path) -> None:
    heard = Heard()
    with ranks(tmp_path, 3, heard, patience=SHORT) as gang:
        gang[0].save(10, {"x": 1}, {}, {})

    assert "ranks 1, 2 did not save: every rank must call save" in heard[0]


def test_a_rank_gives_up_if_rank_0_never_saves(tmp_path: Path) -> None:
    heard = Heard()
    with ranks(tmp_path, 2, heard, patience=SHORT) as gang:
        gang[1].save(10, {"x": 1}, {"rank": 1}, {})

    assert heard == ["step 10 was not saved: rank 0 did not begin to save it within 0 s; training goes on"]


def test_a_loop_does_not_wait_long_for_a_rank_0_that_could_not_begin(tmp_path: Path) -> None:
    heard = Heard()
    patience = Patience(to_begin=1000.0, when_awaited=0.2, after_absence=0.01)
    with ranks(tmp_path, 2, heard, patience=patience) as gang:
        for step in (10, 20, 30):
            gang[1].save(step, {"x": 1}, {"rank": 1}, {})

    assert [one.partition(":")[0] for one in heard] == [f"step {step} was not saved" for step in (10, 20, 30)]


def test_no_save_is_lost_when_ranks_look_at_each_other_s_files(tmp_path: Path) -> None:
    heard = Heard()
    with ranks(tmp_path, 3, heard) as gang:
        for step in range(150):
            for rank in (2, 1, 0):
                gang[rank].save(step, {"x": step}, {"rank": rank}, {})

    assert heard == []
    assert [one.step for one in listed(str(tmp_path))] == [147, 148, 149]


def test_a_rank_that_cannot_write_ends_the_save_of_all(tmp_path: Path) -> None:
    heard = Heard()
    with ranks(tmp_path, 2, heard) as gang:
        save(gang, 10)
        gang[0].save(20, {"x": 1}, {}, {})
        staging = wait_for_staging(tmp_path)
        (staging / "rank-1.bin").mkdir()  # in the way of rank 1's file
        gang[1].save(20, {"x": 1}, {}, {})

    assert any("rank 1 could not write: Is a directory" in one for one in heard)
    assert [one.step for one in listed(str(tmp_path))] == [10]
    assert not list(tmp_path.glob(".staging*"))


def wait_for_staging(where: Path) -> Path:
    while not (found := list(where.glob(".staging-*"))):
        pass
    return found[0]
