"""Does a run that is saved between two steps of its optimizer continue bit for bit?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bireme.runtime.checkpoints import manager
from bireme.runtime.script.run import Run
from tests.unit.script.script_fixtures import opened
from tests.unit.script.test_gangs import gang

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.frameworks

WINDOW = 4
STEPS = 3 * WINDOW


def parts() -> dict[str, Any]:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    return {
        "model": model,
        "optimizer": optimizer,
        "scheduler": scheduler,
        "scaler": torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1),
    }


def backward(model: Any, scaler: Any, step: int, rank: int = 0) -> None:
    torch.manual_seed(100 * rank + step)
    scaler.scale(model(torch.randn(16, 4)).square().mean() / WINDOW).backward()


def stepped(model: Any, optimizer: Any, scheduler: Any, scaler: Any) -> None:
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    scheduler.step()


def trained(run: Run, here: dict[str, Any], until: int = STEPS) -> None:
    """The usual loop: gradients are cleared once before it, and after each step of the optimizer."""
    start = run.restore(**here)
    here["optimizer"].zero_grad()
    for step, _ in run.steps(range(STEPS), start=start):
        backward(here["model"], here["scaler"], step)
        if (step + 1) % WINDOW == 0:
            stepped(**here)
        run.save(step, **here)
        if step + 1 == until:
            return


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    for mine, its in zip(one["model"].parameters(), other["model"].parameters(), strict=True):
        assert torch.equal(mine, its)
    assert one["scaler"].state_dict() == other["scaler"].state_dict()


@pytest.fixture
def undisturbed(tmp_path: Path) -> dict[str, Any]:
    here = parts()
    with opened(tmp_path / "undisturbed", every=1000) as run:
        trained(run, here)
    return here


@pytest.mark.parametrize("until", range(1, WINDOW + 2))
def test_a_save_in_the_middle_of_an_accumulation_keeps_its_gradients(
    tmp_path: Path, undisturbed: dict[str, Any], until: int
) -> None:
    with opened(tmp_path, every=1) as run:
        trained(run, parts(), until)

    resumed = parts()
    with opened(tmp_path, every=1) as run:
        trained(run, resumed)

    assert_same(resumed, undisturbed)


def test_a_loop_of_its_own_continues_with_the_gradients_that_restore_brings_back(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    with opened(tmp_path, every=1) as run:
        trained(run, parts(), 6)

    resumed = parts()
    with opened(tmp_path, every=1) as run:
        for step in range(run.restore(**resumed), STEPS):
            backward(resumed["model"], resumed["scaler"], step)
            if (step + 1) % WINDOW == 0:
                stepped(**resumed)

    assert_same(resumed, undisturbed)


def test_each_rank_gets_the_gradients_back_that_it_had_and_no_other_rank(tmp_path: Path) -> None:
    here = [parts(), parts()]
    runs = gang(tmp_path, 2)
    for run, own in zip(runs, here, strict=True):
        backward(own["model"], own["scaler"], 0, run.rank)
        run.save_now(0, **own)
    for run in runs:
        run.close()

    again = [parts(), parts()]
    for run, own in zip(gang(tmp_path, 2, attempt=1), again, strict=True):
        run.restore(**own)
        run.close()

    for before, after in zip(here, again, strict=True):
        assert [one.grad.tolist() for one in before["model"].parameters()] == [
            one.grad.tolist() for one in after["model"].parameters()
        ]
    assert not torch.equal(again[0]["model"][0].weight.grad, again[1]["model"][0].weight.grad)


def size_of_newest(folder: Path) -> int:
    return manager.listed(str(folder / "checkpoints"))[-1].size


@pytest.mark.parametrize("to_none", [True, False])
def test_gradients_that_the_optimizer_has_used_take_no_room(tmp_path: Path, to_none: bool) -> None:
    """The other usual loop: gradients are cleared before each backward pass, and stay after the step."""
    model = torch.nn.Linear(200, 200)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with opened(tmp_path, every=1) as run:
        for step in range(run.restore(model=model, optimizer=optimizer), 3):
            optimizer.zero_grad(set_to_none=to_none)
            model(torch.randn(2, 200)).sum().backward()
            optimizer.step()
            run.save(step, model=model, optimizer=optimizer)
    once = size_of_newest(tmp_path)
    with opened(tmp_path, every=1) as run:
        optimizer.zero_grad(set_to_none=False)
        run.save_now(3, model=model, optimizer=optimizer)
    cleared = size_of_newest(tmp_path)
    with opened(tmp_path, every=1) as run:
        model(torch.randn(2, 200)).sum().backward()
        run.save_now(4, model=model, optimizer=optimizer)

    assert abs(cleared - once) < 10_000
    assert size_of_newest(tmp_path) > once + 4 * 200 * 200


def test_another_number_of_ranks_begins_the_accumulation_anew_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = parts()
    with opened(tmp_path) as run:
        backward(here["model"], here["scaler"], 0)
        run.save_now(0, **here)

    runs = gang(tmp_path, 2, attempt=1)
    again = parts()
    runs[0].restore(**again)
    for one in runs:
        one.close()

    assert all(one.grad is None for one in again["model"].parameters())
    assert "gradients" in capsys.readouterr().err


def test_a_sparse_gradient_that_cannot_be_saved_is_told_once_and_ends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = torch.nn.Embedding(10, 4, sparse=True)
    with opened(tmp_path, every=1) as run:
        for step in range(3):
            model(torch.tensor([1, 2])).sum().backward()
            run.save(step, model=model)

    said = [line for line in capsys.readouterr().err.splitlines() if "gradient" in line]
    assert len(said) == 1
    assert "model['weight']" in said[0]
    assert [one.step for one in manager.listed(str(tmp_path / "checkpoints"))] == [0, 1, 2]


def test_a_gradient_that_has_no_version_ends_no_training_and_is_saved(tmp_path: Path) -> None:
    layer = torch.nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
    with opened(tmp_path, every=1) as run:
        run.restore(layer=layer, optimizer=optimizer)
        before = layer.weight.detach().clone()
        with torch.inference_mode():
            layer.weight.grad = torch.ones(1, 2)

        optimizer.step()
        run.save(0, layer=layer, optimizer=optimizer)

        assert torch.equal(layer.weight, before - 0.5)
    again = torch.nn.Linear(2, 1, bias=False)
    with opened(tmp_path) as run:
        run.restore(layer=again, optimizer=torch.optim.SGD(again.parameters(), lr=0.5))

    assert torch.equal(again.weight, layer.weight)
    assert torch.equal(again.weight.grad, torch.ones(1, 2))
