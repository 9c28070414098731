"""Is a checkpoint read outside of a run, whole and verified, from wherever it is?"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import bireme
from bireme.runtime.script.complaints import Complaint
from tests.unit.script.script_fixtures import opened
from tests.unit.script.test_gangs import gang

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.frameworks


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A run's folder with checkpoints of the steps 3 and 7."""
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    with opened(tmp_path) as run:
        for step in (3, 7):
            torch.nn.init.constant_(model.weight, float(step))
            run.report(step, loss=1.0 / step)
            run.save_now(step, model=model, optimizer=optimizer, epoch=step)
    return tmp_path


def weight(loaded: dict[str, Any]) -> float:
    model = torch.nn.Linear(3, 2)
    model.load_state_dict(loaded["model"])
    return float(model.weight.detach()[0, 0])


@pytest.mark.parametrize(
    ("where", "step"),
    [
        ("checkpoints", 7),
        ("checkpoints@3", 3),
        ("checkpoints/step-000000003", 3),
        ("checkpoints/step-000000003/", 3),
        ("", 7),
    ],
)
def test_one_line_gives_the_parts_by_name(saved: Path, where: str, step: int) -> None:
    loaded = bireme.load(f"{saved}/{where}")

    assert list(loaded) == ["model", "optimizer", "epoch"]
    assert weight(loaded) == step
    assert (loaded["epoch"], loaded.step, loaded.metrics) == (step, step, {"loss": 1.0 / step})


def test_a_checkpoint_that_was_copied_elsewhere_is_read_under_its_new_name(saved: Path) -> None:
    shutil.copytree(saved / "checkpoints" / "step-000000003", saved / "best model")

    assert weight(bireme.load(saved / "best model")) == 3


def test_the_newest_that_is_whole_is_taken_and_the_other_named(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = saved / "checkpoints" / "step-000000007" / "rank-0.bin"
    data.write_bytes(b"\x01" + data.read_bytes()[1:])

    loaded = bireme.load(saved / "checkpoints")

    assert loaded.step == 3
    assert "step-000000007 is skipped: rank-0.bin has a wrong checksum" in capsys.readouterr().err
    with pytest.raises(Complaint, match=r"no good checkpoint of step 7 .*wrong checksum"):
        bireme.load(f"{saved / 'checkpoints'}@7")
    with pytest.raises(Complaint, match="wrong checksum"):
        bireme.load(saved / "checkpoints" / "step-000000007")


def test_the_number_of_ranks_that_saved_it_does_not_matter(tmp_path: Path) -> None:
    runs = gang(tmp_path, 3)
    for run in runs:
        run.save_now(1, weight=torch.full((4,), 5.0))
    for run in runs:
        run.close()

    loaded = bireme.load(tmp_path)

    assert loaded["weight"].tolist() == [5.0] * 4
    assert loaded.world_size == 3


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("{}/nowhere", "there is no folder"),
        ("{}/empty", "no good checkpoint in"),
        ("{}/checkpoints@5", "the steps that are there: 3, 7"),
        ("ftp://host/x", "cannot be kept in"),
    ],
)
def test_what_is_not_there_is_said(saved: Path, where: str, says: str) -> None:
    (saved / "empty").mkdir()

    with pytest.raises(Complaint, match=says):
        bireme.load(where.format(saved))


def test_the_package_tells_its_names() -> None:
    names = dir(bireme)

    assert {"init", "load", "Run", "Client", "Complaint", "__version__"} <= set(names)
    for name in names:
        getattr(bireme, name)
