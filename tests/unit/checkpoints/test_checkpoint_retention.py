"""Which checkpoints stay: the last, the best, whatever is being read, and always a good one."""

from __future__ import annotations

import math
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from bireme.runtime.checkpoints.manager import Keep, Owner, listed
from bireme.runtime.checkpoints.storage.checkpoint_format import CheckpointHead, Signature
from bireme.runtime.checkpoints.storage.checkpoint_retention import spare, unwanted
from bireme.runtime.checkpoints.storage.folder_store import FolderStore
from tests.unit.checkpoints.building import keeping


def head(step: int, serial: int, **metrics: float) -> CheckpointHead:
    return CheckpointHead(step, serial, 0.0, "run", 0, 1, "", metrics)


def test_the_last_ones_stay() -> None:
    good = {f"s{step}": head(step, step) for step in (1, 2, 3, 4, 5)}

    assert unwanted(good, {}, Keep(last=2)) == ["s1", "s2", "s3"]


def test_the_best_ones_stay_too() -> None:
    losses = {1: 0.3, 2: 0.1, 3: 0.2, 4: math.nan, 5: 0.5}
    good = {f"s{step}": head(step, step, loss=loss) for step, loss in losses.items()}

    assert unwanted(good, {}, Keep(last=1, best=2, metric="loss")) == ["s1", "s4"]
    assert unwanted(good, {}, Keep(last=1, best=1, metric="loss", mode="max")) == ["s1", "s2", "s3", "s4"]
    assert unwanted(good, {}, Keep(last=1, best=1, metric="accuracy")) == ["s1", "s2", "s3", "s4"]


def sized(step: int, size: int, **metrics: float) -> CheckpointHead:
    return CheckpointHead(step, step, 0.0, "run", 0, 1, "", metrics, {0: Signature(size, 0, 0)})


def test_the_oldest_makes_room_and_neither_the_newest_nor_the_best() -> None:
    good = {f"s{step}": sized(step, 100, loss=float(step)) for step in (1, 2, 3, 4)}

    assert spare(good, Keep(last=3), 150) == ["s1", "s2", "s3"]
    assert spare(good, Keep(last=3, best=1, metric="loss"), 150) == ["s2", "s3"]
    assert spare({"s1": sized(1, 100)}, Keep(last=3), 10) == []


def test_nothing_makes_room_where_that_is_in_vain() -> None:
    good = {f"s{step}": sized(step, 100) for step in (1, 2, 3)}

    assert spare(good, Keep(last=3), 201) == []


def test_torn_ones_go_once_enough_good_ones_are_newer() -> None:
    good = {"s3": head(3, 1), "s5": head(5, 2)}

    assert unwanted(good, {"s2": 2, "s4": 4, "s6": 6}, Keep(last=2)) == ["s2"]
    assert unwanted(good, {"s2": 2, "s4": 4}, Keep(last=3)) == []
    assert unwanted({}, {"s2": 2}, Keep(last=1)) == []


@given(
    st.lists(st.tuples(st.integers(0, 9), st.floats(allow_infinity=False)), min_size=1),
    st.builds(Keep, st.integers(1, 5), st.integers(0, 3), st.just("loss"), st.sampled_from(["min", "max"])),
)
def test_the_newest_always_stays_and_a_step_is_there_once(saved: list[tuple[int, float]], keep: Keep) -> None:
    good = {f"s{serial}": head(step, serial, loss=loss) for serial, (step, loss) in enumerate(saved)}

    gone = unwanted(good, {}, keep)

    left = [good[name] for name in good if name not in gone]
    assert good[f"s{len(saved) - 1}"] in left
    assert len({one.step for one in left}) == len(left) <= keep.last + keep.best
    assert len(set(gone)) == len(gone)


def test_old_ones_are_removed_after_each_save(tmp_path: Path) -> None:
    with keeping(tmp_path, keep=Keep(last=2, best=1, metric="loss")) as checkpoints:
        for step, loss in enumerate([5.0, 1.0, 3.0, 4.0, 2.0]):
            checkpoints.save(step, {}, {}, {"loss": loss})

    assert [one.step for one in listed(str(tmp_path))] == [1, 3, 4]
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 3


def test_one_that_is_being_read_is_not_removed(tmp_path: Path) -> None:
    with keeping(tmp_path, keep=Keep(last=1)) as checkpoints:
        checkpoints.save(1, {}, {}, {})
        checkpoints.wait()
        with FolderStore(str(tmp_path)).hold("step-000000001"):
            checkpoints.save(2, {}, {}, {})
            checkpoints.wait()
            assert [one.step for one in listed(str(tmp_path))] == [1, 2]

        checkpoints.save(3, {}, {}, {})

    assert [one.step for one in listed(str(tmp_path))] == [3]


def test_what_another_run_has_left_is_kept_and_not_counted(tmp_path: Path) -> None:
    with keeping(tmp_path, owner=Owner("first")) as checkpoints:
        for step in (1, 2):
            checkpoints.save(step, {}, {}, {})
    (tmp_path / "step-000000001" / "rank-0.bin").unlink()  # torn, and still not ours to remove

    with keeping(tmp_path, keep=Keep(last=1), owner=Owner("second")) as checkpoints:
        checkpoints.restore({})
        for step in (2, 3, 4):
            checkpoints.save(step, {}, {}, {})

    assert [(one.step, one.run) for one in listed(str(tmp_path))] == [
        (1, "first"),
        (2, "first"),
        (4, "second"),
    ]


def test_a_torn_one_whose_owner_is_not_known_is_kept(tmp_path: Path) -> None:
    with keeping(tmp_path, keep=Keep(last=1)) as checkpoints:
        checkpoints.save(1, {}, {}, {})
        checkpoints.wait()
        (tmp_path / "step-000000001" / "checkpoint.json").unlink()
        checkpoints.save(2, {}, {}, {})

    assert [(one.step, one.is_torn) for one in listed(str(tmp_path))] == [(1, True), (2, False)]


def test_what_another_run_is_writing_or_removing_is_left_alone(tmp_path: Path) -> None:
    theirs = [f".staging-{'f' * 16}-0-aa-1-bb", f".trash-{'f' * 16}-aa", f".choice-{'f' * 16}-0-0-1"]
    for name in theirs:
        (tmp_path / name).mkdir()

    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {}, {}, {})

    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == sorted(theirs)
