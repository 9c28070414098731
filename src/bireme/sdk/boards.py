"""How does TensorBoard come to a run: its event files, and the program that shows them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from bireme import errors
from bireme.runs import boards, picked
from bireme.runs.boards import Board
from bireme.runs.directory import RunDirectory
from bireme.sdk.local import LocalJob
from bireme.sdk.places import Found


def run_of(found: Found) -> RunDirectory:
    """The run of a job; that of a cluster has none here."""
    if isinstance(found, LocalJob):
        return found.run
    raise errors.BadInput(
        f"{found.id} runs in a cluster, and what it reported is in its pods",
        hint="let it report to a volume, and point TensorBoard there",
    )


def board(run: RunDirectory) -> Board:
    """The run's event files, to be kept current by whoever holds this."""
    return Board(run.path / boards.FOLDER, *picked.feeds(run))


def program(run: RunDirectory, environ: Mapping[str, str]) -> str:
    """Where TensorBoard is: beside the interpreter of the job, or on PATH."""
    python = run.context().python
    path = os.pathsep.join([os.path.dirname(python), environ.get("PATH", os.defpath)])
    found = shutil.which("tensorboard", path=path)
    if found is None:
        raise errors.BadInput(
            f"TensorBoard is neither beside {python} nor on PATH",
            hint=f"{python} -m pip install tensorboard, or use --logdir-only and one from elsewhere",
        )
    return found
