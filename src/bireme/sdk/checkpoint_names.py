"""Names the checkpoints that a run can continue from."""

from __future__ import annotations

import os
import sys

from msgspec import Struct

from bireme import errors
from bireme.backends.local.preflight import python_finder
from bireme.runs import run_checkpoints
from bireme.runs.run_checkpoints import Checkpoint
from bireme.sdk.lookup import Places


class CheckpointList(Struct, frozen=True):
    """The output of `bireme checkpoints --json`."""

    job: str
    where: str
    checkpoints: tuple[Checkpoint, ...]
    version: int = 1


class Exported(Struct, frozen=True):
    """The output of `bireme checkpoints export --json`."""

    source: str
    """The job or the place, and the step: `train-abcd@1200`."""
    file: str
    part: str
    step: int
    size: int
    ranks: int
    """How many ranks have saved it."""
    is_sharded: bool
    """Whether its tensors were put together from the pieces of several ranks."""
    others: tuple[str, ...]
    """The parts that were not written."""
    version: int = 1


def of_job(places: Places, name: str, *, verified: bool = False) -> CheckpointList:
    """The checkpoints of a job, the oldest first."""
    found = places.find(name)
    where = found.checkpoints_at()
    return CheckpointList(found.id, where, run_checkpoints.listed(where, verified=verified))


def origin(places: Places, given: str) -> str:
    """What `--from` means: a job or a folder, with a step or the newest one; refused if nothing is there."""
    name, step = _split(given)
    where = name if "/" in name else places.find(name).checkpoints_at()
    good = [checkpoint.step for checkpoint in run_checkpoints.listed(where) if checkpoint.is_good]
    if not good:
        raise errors.BadInput(
            f"{name} has no checkpoint to continue from ({where})", hint="bireme checkpoints NAME lists them"
        )
    if step is not None and step not in good:
        known = ", ".join(map(str, good))
        raise errors.BadInput(f"{name} has no good checkpoint of step {step}", hint=f"it has steps {known}")
    return where if step is None else f"{where}@{step}"


def export(places: Places, given: str, target: str, part: str, *, force: bool) -> Exported:
    """Writes a part of a checkpoint for torch, in the interpreter of its job or in one that has torch."""
    if target.endswith(".safetensors"):
        raise errors.BadInput(
            "a file of torch is written, and safetensors is another format",
            hint="model.pt, or bireme.load(...)",
        )
    name, _ = _split(given)
    source = origin(places, given)
    pythons = [python_finder.find(os.environ), sys.executable]
    if "/" not in name:
        pythons.insert(0, places.find(name).python(os.environ))
    exported = run_checkpoints.export(
        pythons, run_checkpoints.ExportRequest(source, os.path.abspath(target), part, force)
    )
    return Exported(
        f"{name}@{exported.step}",
        target,
        exported.part,
        exported.step,
        exported.size,
        exported.ranks,
        exported.is_sharded,
        exported.others,
    )


def _split(given: str) -> tuple[str, int | None]:
    name, at, step = given.rpartition("@")
    if not at:
        return given, None
    if not step.isdecimal():
        raise errors.BadInput(
            f"{step!r} is not the step of a checkpoint", hint="write train-abcd@1200, or train-abcd"
        )
    return name, int(step)
