"""The checkpoints of a run: where they are, which there are, and a part of one exported to a file."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from bireme import errors
from bireme.runtime.script import complaints, notes


class Checkpoint(Struct, frozen=True):
    """One checkpoint, and whether it can be restored."""

    step: int
    name: str
    saved: float
    size: int
    metrics: dict[str, float]
    world_size: int
    is_good: bool
    why_not: str = ""


def where(folder: Path) -> str:
    """Where the run in this directory keeps its checkpoints: what its script noted, else its own folder."""
    return notes.checkpoints(str(folder))


class NewestCheckpoint(Struct, frozen=True):
    """The newest checkpoint that can be restored: of which step, in which place, and when it was saved."""

    step: int
    where: str
    saved: float


def newest(folder: Path) -> NewestCheckpoint | None:
    """That of the run in this directory; of those in a bucket, which may be far, what its script noted."""
    place = where(folder)
    if "://" in place:
        noted = notes.saved(str(folder))
        return None if noted is None else NewestCheckpoint(noted.step, place, noted.time)
    if not os.path.isdir(place):
        return None  # without the import of the checkpoints: most jobs save none
    if not any(Path(place).glob("step-*")):
        return None  # most runs have none, and need not load what reads them
    try:
        found = listed(place)
    except errors.BiremeError:
        return None
    good = next((checkpoint for checkpoint in reversed(found) if checkpoint.is_good), None)
    return None if good is None else NewestCheckpoint(good.step, place, good.saved)


def listed(place: str, *, verified: bool = False) -> tuple[Checkpoint, ...]:
    """The checkpoints of a folder or an object store, the oldest first."""
    from bireme.runtime.checkpoints import manager  # here: commands that only launch do without it

    look = manager.verified if verified else manager.listed
    try:
        found = look(place)
    except complaints.Complaint as complaint:
        raise errors.BadInput(complaint.what, hint=complaint.hint) from complaint
    except OSError as error:
        raise errors.Unreachable(f"the checkpoints in {place} cannot be read: {error}") from error
    return tuple(
        Checkpoint(
            checkpoint.step,
            checkpoint.name,
            checkpoint.when,
            checkpoint.size,
            {_shown(name): value for name, value in checkpoint.metrics.items()},
            checkpoint.world_size,
            checkpoint.is_good,
            _shown(checkpoint.why_not),
        )
        for checkpoint in found
    )


def _shown(text: str) -> str:
    """The text as it can be printed: what is quoted from a damaged file may hold half a character."""
    return text.encode("utf-8", "replace").decode("utf-8")


class ExportRequest(Struct, frozen=True):
    """What to write where."""

    source: str
    """A folder or an object store, with `@STEP` unless it is the newest."""
    target: str
    part: str
    """Empty for the model, or the only one."""
    force: bool
    """Whether a file that is there is replaced."""

    @property
    def words(self) -> list[str]:
        return [self.source, self.target, self.part, "force" if self.force else ""]


class ExportedPart(Struct, frozen=True):
    """What was written."""

    part: str
    step: int
    size: int
    ranks: int
    is_sharded: bool
    others: tuple[str, ...]


class _Refused(Struct, frozen=True):
    what: str
    hint: str = ""


def export(pythons: Sequence[str], wish: ExportRequest) -> ExportedPart:
    """Writes it in the first of the interpreters that has torch; BadInput if it cannot be written."""
    from bireme.runtime.checkpoints import exporting  # here, as above

    # A program of its own, in an interpreter that has torch: Bireme's own need not have it.
    program = os.path.join(os.path.dirname(os.path.dirname(exporting.__file__)), "start_export.py")
    known = tuple(dict.fromkeys(pythons))
    for python in known:
        with contextlib.suppress(FileNotFoundError, PermissionError):
            done = subprocess.run([python, program, *wish.words], capture_output=True, check=False)
            if done.returncode == exporting.NO_TORCH:
                continue
            if done.returncode:
                last = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
                try:
                    refused = msgspec.json.decode(last, type=_Refused)
                except (msgspec.DecodeError, ValueError):
                    why = last or "it is not known why"
                    raise errors.BadInput(f"the checkpoint cannot be exported: {why}") from None
                raise errors.BadInput(refused.what, hint=refused.hint)
            # A library may have something to say, too, as it is imported.
            return msgspec.json.decode(done.stdout.strip().rpartition(b"\n")[2], type=ExportedPart)
    raise errors.BadInput(
        f"torch is not installed in {', '.join(known)}, and the file is one of it",
        hint="activate an environment that has it",
    )
