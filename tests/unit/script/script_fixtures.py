"""Opens a run without a platform, and shows what it saved."""

from __future__ import annotations

from pathlib import Path

from bireme.runtime.checkpoints import manager
from bireme.runtime.checkpoints.values import Keep
from bireme.runtime.script.rank_env import RankEnv
from bireme.runtime.script.run import Run
from bireme.runtime.script.run_settings import RunSettings
from bireme.runtime.script.save_schedule import Every


def opened(
    folder: Path,
    *,
    every: Every = 5,
    seed: int = 0,
    stop_on_nan: bool = False,
    origin: str = "",
    run: str = "train-abcd",
) -> Run:
    place = RankEnv(run=run, folder=str(folder))
    settings = RunSettings(
        str(folder / "checkpoints"), Keep(), every=every, seed=seed, stop_on_nan=stop_on_nan, origin=origin
    )
    return Run(place, str(folder), settings)


def steps_in(folder: Path) -> list[int]:
    return [one.step for one in manager.listed(str(folder / "checkpoints"))]
