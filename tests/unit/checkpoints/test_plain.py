"""Are plain Python values and numpy arrays saved and restored, whole and in order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bireme.runtime.checkpoints.manager import Checkpoints, Keep, Owner, listed, verified
from bireme.runtime.checkpoints.storage import checkpoint_format
from bireme.runtime.script.complaints import Complaint
from tests.unit.checkpoints.building import Heard, keeping


def test_nothing_is_restored_from_nothing(tmp_path: Path) -> None:
    with keeping(tmp_path / "absent") as checkpoints:
        assert checkpoints.restore({"state": None}) is None

    assert not (tmp_path / "absent").exists()


def test_a_tree_comes_back_in_another_life(tmp_path: Path) -> None:
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(120, {"state": {"lr": 0.1, 3: (1, b"x" * 5000)}}, {"position": 17}, {"loss": 0.5})

    with keeping(tmp_path) as checkpoints:
        restored = checkpoints.restore({"state": None})

    assert restored is not None
    assert (restored.step, restored.name, restored.world_size) == (120, "step-000000120", 1)
    assert restored.values == {"state": {"lr": 0.1, 3: (1, b"x" * 5000)}}
    assert restored.own == {"position": 17}


def test_the_newest_is_restored_and_a_given_step_on_demand(tmp_path: Path) -> None:
    with keeping(tmp_path) as checkpoints:
        for step in (10, 20, 30):
            checkpoints.save(step, {"x": step}, {}, {})

        newest, middle = checkpoints.restore({}), checkpoints.restore({}, step=20)

        assert newest is not None
        assert newest.values == {"x": 30}
        assert middle is not None
        assert middle.values == {"x": 20}
        with pytest.raises(
            Complaint, match="no good checkpoint of step 25; the steps that are there: 10, 20, 30"
        ):
            checkpoints.restore({}, step=25)


def test_a_part_that_was_not_saved_is_named(tmp_path: Path) -> None:
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"model": 1, "optimizer": 2}, {}, {})

        with pytest.raises(
            Complaint, match="scaler is not in checkpoint step-000000001, which has model, optimizer"
        ):
            checkpoints.restore({"model": None, "scaler": None})


def test_the_state_is_that_of_the_call_whatever_happens_to_it_afterwards(tmp_path: Path) -> None:
    state = {"count": [1]}
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"state": state}, {}, {})
        state["count"].append(2)
        restored = checkpoints.restore({})

    assert restored is not None
    assert restored.values == {"state": {"count": [1]}}


def test_the_same_step_saved_again_replaces_the_first(tmp_path: Path) -> None:
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(5, {"x": "old"}, {}, {})
        checkpoints.save(5, {"x": "new"}, {}, {})
        restored = checkpoints.restore({})

    assert restored is not None
    assert restored.values == {"x": "new"}
    assert len(listed(str(tmp_path))) == 1


def test_a_run_that_went_back_continues_from_where_it_went_on(tmp_path: Path) -> None:
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(10, {"x": "first"}, {}, {})
        checkpoints.save(20, {"x": "first"}, {}, {})
        checkpoints.restore({}, step=10)
        checkpoints.save(15, {"x": "second"}, {}, {})
        restored = checkpoints.restore({})

    assert restored is not None
    assert (restored.step, restored.values) == (15, {"x": "second"})


def test_the_list_says_what_there_is(tmp_path: Path) -> None:
    with keeping(tmp_path, owner=Owner("mnist", 0, 1, 2)) as checkpoints:
        checkpoints.save(10, {"x": b"y" * 2000}, {}, {"loss": 0.25})

    (found,) = listed(str(tmp_path))

    assert (found.step, found.metrics, found.run, found.is_good) == (10, {"loss": 0.25}, "mnist", True)
    assert found.size > 2000
    assert verified(str(tmp_path)) == (found,)


def test_the_files_are_json_and_raw_bytes(tmp_path: Path) -> None:
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(10, {"x": b"abc" * 1000}, {}, {})

    folder = tmp_path / "step-000000010"
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoint.json", "rank-0.bin", "rank-0.json"]
    assert json.loads((folder / "checkpoint.json").read_bytes())["content"]["step"] == 10
    assert (folder / "rank-0.bin").read_bytes()[:3000] == b"abc" * 1000
    assert checkpoint_format.step_of("step-000000010.3") == 10


def test_something_that_cannot_be_saved_leaves_nothing_behind(tmp_path: Path) -> None:
    with (
        keeping(tmp_path / "folder") as checkpoints,
        pytest.raises(Complaint, match=r"state\['file'\] is a _io.BufferedReader, which cannot be saved"),
        open(__file__, "rb") as file,
    ):
        checkpoints.save(1, {"state": {"file": file}}, {}, {})

    assert not (tmp_path / "folder").exists()


def test_a_class_is_not_a_part(tmp_path: Path) -> None:
    with keeping(tmp_path) as checkpoints, pytest.raises(Complaint, match="scheduler is a class"):
        checkpoints.save(1, {"scheduler": Heard}, {}, {})


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def state_dict(self) -> dict[str, int]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.count = state["count"]


class Picky(Counter):
    def load_state_dict(self, state: dict[str, int]) -> None:
        raise ValueError("wrong number of buckets")


def test_what_has_state_dict_is_restored_in_place(tmp_path: Path) -> None:
    counter = Counter()
    counter.count = 7
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"counter": counter}, {}, {})
        counter.count = 9
        restored = checkpoints.restore({"counter": counter})

    assert restored is not None
    assert restored.values["counter"] is counter
    assert counter.count == 7


def test_when_one_part_refuses_the_others_are_as_they_were(tmp_path: Path) -> None:
    first, second = Counter(), Picky()
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"first": first, "second": second}, {}, {})
        first.count = 9

        with pytest.raises(
            Complaint, match="second does not take what was saved: ValueError: wrong number of"
        ):
            checkpoints.restore({"first": first, "second": second})

    assert first.count == 9


@pytest.mark.parametrize("keep", [Keep(last=0), Keep(mode="least"), Keep(best=1)])
def test_keeping_nothing_is_refused(tmp_path: Path, keep: Keep) -> None:
    with pytest.raises(Complaint), keeping(tmp_path, keep=keep):
        pass


@pytest.mark.parametrize("where", ["hdfs://host/folder", "http://host/folder"])
def test_a_place_of_an_unknown_kind_is_refused(where: str) -> None:
    with pytest.raises(Complaint, match="checkpoints cannot be kept in"):
        Checkpoints(where, Owner("run"), Keep(), Heard())
