"""Which checkpoints can a run be continued from, and how is one named."""

from __future__ import annotations

from msgspec import Struct

from bireme import errors
from bireme.runs import checkpoints
from bireme.runs.checkpoints import Checkpoint
from bireme.sdk.finding import Places

VARIABLE = "BIREME_FROM"
"""Tells a script's `restore` from where to go on, as FOLDER or FOLDER@STEP."""


class CheckpointList(Struct, frozen=True):
    """What `bireme checkpoints --json` prints."""

    job: str
    where: str
    checkpoints: tuple[Checkpoint, ...]
    version: int = 1


def of_job(places: Places, name: str, *, verified: bool = False) -> CheckpointList:
    """The checkpoints of a job, the oldest first."""
    found = places.find(name)
    where = found.checkpoints_at()
    return CheckpointList(found.id, where, checkpoints.listed(where, verified=verified))


def origin(places: Places, given: str) -> str:
    """What `--from` means: a job or a folder, with a step or the newest one; refused if nothing is there."""
    name, step = _split(given)
    where = name if "/" in name else places.find(name).checkpoints_at()
    good = [one.step for one in checkpoints.listed(where) if one.is_good]
    if not good:
        raise errors.BadInput(
            f"{name} has no checkpoint to continue from ({where})", hint="bireme checkpoints NAME lists them"
        )
    if step is not None and step not in good:
        known = ", ".join(map(str, good))
        raise errors.BadInput(f"{name} has no good checkpoint of step {step}", hint=f"it has steps {known}")
    return where if step is None else f"{where}@{step}"


def _split(given: str) -> tuple[str, int | None]:
    name, at, step = given.rpartition("@")
    if not at:
        return given, None
    if not step.isdecimal():
        raise errors.BadInput(
            f"{step!r} is not the step of a checkpoint", hint="--from train-abcd@1200, or --from train-abcd"
        )
    return name, int(step)
