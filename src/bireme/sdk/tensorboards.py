"""Brings TensorBoard to a job: its event files, and the program that shows them."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from bireme import errors
from bireme.runs.metrics.metric_reader import Feed
from bireme.runs.metrics.tensorboard import TensorboardWriter


class Curves(Struct, frozen=True):
    """What a job reported, and what is needed to show it."""

    folder: Path
    """Where its event files belong."""
    feeds: tuple[Feed, ...]
    exists: Callable[[], bool]
    """Whether the job is there: it may be removed while it is shown."""
    close: Callable[[], None] = lambda: None
    is_full: Callable[[], bool] = lambda: False
    """Whether there are more ranks or names than are shown."""

    def board(self) -> TensorboardWriter:
        """The event files, to be kept current by the holder of this."""
        return TensorboardWriter(self.folder, time, *self.feeds)


def program(python: str, environ: Mapping[str, str]) -> str:
    """Finds TensorBoard: beside an interpreter, or on PATH."""
    path = os.pathsep.join([os.path.dirname(python), environ.get("PATH", os.defpath)])
    found = shutil.which("tensorboard", path=path)
    if found is None:
        raise errors.BadInput(
            f"TensorBoard is neither beside {python} nor on PATH",
            hint=f"{python} -m pip install tensorboard, or use --logdir-only and one from elsewhere",
        )
    return found
