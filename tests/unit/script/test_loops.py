"""Does a loop over data go on where it was, and nothing else move it?"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from bireme.runtime.script.run import Run
from tests.unit.script.script_fixtures import opened


def test_a_loop_over_a_shard_goes_on_where_it_was_and_an_evaluation_does_not(tmp_path: Path) -> None:
    with opened(tmp_path) as run:
        first = []
        for step, one in enumerate(run.shard(range(10), start=run.restore())):
            first.append(one)
            if step == 3:
                run.save_now(step)
                break

    with opened(tmp_path) as run:
        rest = list(run.shard(range(10), start=run.restore()))
        whole = list(run.shard(range(10)))

    assert sorted(first + rest) == list(range(10))
    assert whole == first + rest


def test_an_evaluation_in_the_loop_does_not_move_the_training(tmp_path: Path) -> None:
    def trained(run: Run, stop_after: int) -> list[int]:
        found = []
        start = run.restore()
        for step, (batch,) in run.steps(numbers(40), start=start, epochs=2):
            found += batch.tolist()
            assert sum(len(one) for _, (one,) in run.steps(numbers(12))) == 12
            run.save(step)
            if step == stop_after:
                break
        return found

    def numbers(count: int) -> DataLoader[tuple[torch.Tensor, ...]]:
        return DataLoader(TensorDataset(torch.arange(count)), batch_size=4, shuffle=True)

    with opened(tmp_path) as run:
        first = trained(run, stop_after=6)
    with opened(tmp_path) as run:
        rest = trained(run, stop_after=99)

    assert sorted(first + rest) == sorted(2 * list(range(40)))


def test_a_loop_that_was_not_told_where_to_go_on_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(tmp_path) as run:
        for step, _ in run.steps(range(10)):
            run.save(step)
    with opened(tmp_path) as run:
        run.restore()
        assert [step for step, _ in run.steps(range(10))] == list(range(10))

    assert "start=start" in capsys.readouterr().err


def test_a_loop_that_begins_again_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with opened(tmp_path) as run:
        start = run.restore()
        for _ in range(2):
            for step, _ in run.steps(range(10), start=start):
                run.report(step, loss=1.0)

    assert "starts again at step 0" in capsys.readouterr().err


def test_another_seed_in_the_middle_of_an_epoch_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def go_on(seed: int) -> str:
        with opened(tmp_path, seed=seed) as run:
            next(iter(run.steps(range(10), start=run.restore())))
        return capsys.readouterr().err

    with opened(tmp_path, seed=1) as run:
        for step, _ in run.steps(range(10), start=run.restore()):
            if step == 3:
                run.save_now(step)
                break

    assert "seed" not in go_on(seed=1)
    assert "saved with seed=1, and now it is 2: shuffled data continues in another order" in go_on(seed=2)


def test_random_numbers_and_data_go_on_where_they_were(tmp_path: Path) -> None:
    def losses(run: Run, stop_after: int) -> list[tuple[int, list[int], float]]:
        loader = DataLoader(TensorDataset(torch.arange(40)), batch_size=4, shuffle=True)
        start = run.restore()
        found = []
        torch.rand(int(start))  # whatever happens in between
        for step, (batch,) in run.steps(loader, start=start, epochs=2):
            found.append((step, batch.tolist(), torch.rand(1).item()))
            run.save(step)
            if step == stop_after:
                break
        run.close()
        return found

    torch.manual_seed(1)
    undisturbed = losses(opened(tmp_path / "a", run="a"), stop_after=99)
    torch.manual_seed(1)
    first = losses(opened(tmp_path / "b", run="b"), stop_after=12)
    second = losses(opened(tmp_path / "b", run="b"), stop_after=99)

    assert [step for step, _, _ in second] == list(range(10, 20))
    assert first[:10] + second == undisturbed
