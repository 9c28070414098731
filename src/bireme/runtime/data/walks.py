"""What do all ways through data have in common: where they begin, and what they hand out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, NamedTuple, Optional

from ..script.complaints import Complaint
from .epoch_order import Position


@dataclass(frozen=True)
class WalkPlan:
    """Where one rank of many begins, and how far it goes."""

    rank: int
    world: int
    start: int
    """The number of the first step."""
    position: Position
    epochs: Optional[int]
    """How many epochs the run has, also those that are over; None: there is no last one."""
    seed: int


class HandedBatch(NamedTuple):
    """A batch, and where the run stands once it has been trained with."""

    epoch: int
    batch: Any  # whatever the user's data consists of
    after: Callable[[], Position]
    """Called only when somebody wants to save it: some loaders take long to say where they are."""


def own_state(way: WalkPlan) -> Any:  # Any: a plain tree
    """What something that keeps its own position is to go on with; None at the beginning."""
    inner = way.position.inner
    if inner is None and way.position.at:
        raise Complaint(
            "the loader keeps its own position, and the checkpoint does not know it",
            "give the kind of loader that the run was started with, or start a new run",
        )
    if inner is not None and way.position.world not in (0, way.world):
        raise Complaint(
            f"the loader keeps its own position, which holds for {way.position.world} ranks; "
            f"now there are {way.world}",
            f"start {way.position.world} workers, or give a DataLoader without a sampler of your own",
        )
    return inner


def known(position: Position) -> Callable[[], Position]:
    """A position that needs no asking."""
    return partial(_same, position)


def announce_epoch(epoch: int, *parts: object) -> None:
    """Tells the epoch to those parts that shuffle by it."""
    for part in parts:
        announced = getattr(part, "set_epoch", None)
        if callable(announced):
            announced(epoch)


def gave_nothing(epoch: int, world: int) -> Complaint:
    """The words for data that ended at once."""
    needed = "nothing" if world == 1 else f"less than one element for each of {world} ranks"
    return Complaint(
        f"the data gave {needed} in epoch {epoch}",
        "is it empty, or can it be read only once? Then give something that can be iterated again",
    )


def _same(position: Position) -> Position:
    return position
