"""Do the ranks of a run stay together, also when there were fewer or more of them before?"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from bireme.runtime.checkpoints.values import Keep
from bireme.runtime.script.rank_env import RankEnv
from bireme.runtime.script.run import Run
from bireme.runtime.script.run_settings import RunSettings

SAMPLES = 101
Given = tuple[int, list[torch.Tensor]]


def gang(folder: Path, world_size: int, attempt: int = 0) -> list[Run]:
    settings = RunSettings(str(folder / "checkpoints"), Keep(), every=1000)
    places = [
        RankEnv(rank, world_size, rank, world_size, attempt=attempt, run="train-abcd", folder=str(folder))
        for rank in range(world_size)
    ]
    return [Run(place, str(folder), settings) for place in places]


def trained(folder: Path, world_size: int, attempt: int, steps: int) -> Counter[tuple[int, int]]:
    """Goes some steps on from the newest checkpoint, and saves; answers which samples were seen."""
    seen: Counter[tuple[int, int]] = Counter()
    with contextlib.ExitStack() as stack:
        runs = [stack.enter_context(run) for run in gang(folder, world_size, attempt)]
        loops = []
        for run in runs:
            loader = DataLoader(TensorDataset(torch.arange(SAMPLES)), batch_size=3, shuffle=True)
            loops.append(run.steps(loader, start=run.restore(), epochs=2))
        for numbers in _in_step(loops, steps):
            for run, (_, (batch,)) in zip(runs, numbers, strict=True):
                seen.update((run.epoch, sample) for sample in batch.tolist())
            last = numbers[0][0]
        for run in runs:
            run.save_now(last)
    return seen


def _in_step(loops: list[Iterator[Given]], steps: int) -> Iterator[list[Given]]:
    for _ in range(steps):
        given = [one for one in (next(loop, None) for loop in loops) if one is not None]
        if not given:
            return
        assert len(given) == len(loops)  # all of them end at once
        yield given


@pytest.mark.parametrize("worlds", [(2, 1, 3), (1, 4), (3, 2, 1)])
def test_each_sample_is_seen_once_however_many_ranks_there_are(
    tmp_path: Path, worlds: tuple[int, ...]
) -> None:
    seen: Counter[tuple[int, int]] = Counter()
    for attempt, world_size in enumerate(worlds):
        is_last = attempt == len(worlds) - 1
        seen += trained(tmp_path, world_size, attempt, steps=1000 if is_last else 6)

    assert set(seen) == {(epoch, sample) for epoch in range(2) for sample in range(SAMPLES)}
    assert set(seen.values()) == {1}
