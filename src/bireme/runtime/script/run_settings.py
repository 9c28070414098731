"""The settings of a run, from the arguments of `bireme.init` and the environment."""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

from ..checkpoints.values import Keep
from .save_schedule import Every


class RunSettings(NamedTuple):
    """How a run keeps its work; `bireme.init` says what each means."""

    checkpoints: str
    keep: Keep
    every: Every = 100
    seed: int = 0
    stop_on_nan: bool = False
    origin: str = ""
    """Checkpoints of another run to continue, as FOLDER or FOLDER@STEP."""
    metrics: str = ""
    """Where records are kept, if not in the run's folder."""
    echoes: bool = False
    """Whether what is reported is printed, too."""


def origin(text: str) -> Tuple[str, Optional[int]]:
    """Takes FOLDER@STEP apart; without a step it is the newest."""
    where, at, step = text.rpartition("@")
    if at and step.isdecimal():
        return where, int(step)
    return text, None
