"""Which checkpoints has a run, and where does it keep them."""

from __future__ import annotations

from pathlib import Path

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
    try:
        found = listed(place)
    except errors.BiremeError:
        return None
    good = next((one for one in reversed(found) if one.is_good), None)
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
            one.step,
            one.name,
            one.when,
            one.size,
            {_shown(name): value for name, value in one.metrics.items()},
            one.world_size,
            one.is_good,
            _shown(one.why_not),
        )
        for one in found
    )


def _shown(text: str) -> str:
    """The text as it can be printed: what is quoted from a damaged file may hold half a character."""
    return text.encode("utf-8", "replace").decode("utf-8")
