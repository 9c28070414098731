"""The position of a run in its data, and what every way of iterating over data starts from and yields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Tuple

from ..script.complaints import Complaint


@dataclass(frozen=True)
class Position:
    """Where a run stands in its data: next comes the tail, if any, then the epoch's order from `at`."""

    epoch: int = 0
    at: int = 0
    """How many samples of the epoch's order have been handed out, over all ranks; 0 while there is a tail."""
    tail: Optional[Tuple[int, int]] = None
    """(epoch, from): samples of the epoch before that were too few for all ranks, and open this one."""
    inner: Any = None  # Any: a plain tree
    """What a loader, sampler or dataset that keeps its own position says of it."""
    world: int = 0
    """For how many ranks `inner` holds; 0: for any number."""

    @property
    def is_within_an_epoch(self) -> bool:
        """Whether the order of the epoch matters for what comes next."""
        return bool(self.at or self.tail or self.inner is not None)

    def state(self) -> Dict[str, Any]:  # Any: a plain tree
        """The position as a plain tree, for a checkpoint."""
        tail = None if self.tail is None else list(self.tail)
        return {"epoch": self.epoch, "at": self.at, "tail": tail, "inner": self.inner, "world": self.world}


def position(state: Mapping[str, Any]) -> Position:  # Any: a plain tree
    """Reads what `Position.state` gave."""
    try:
        tail = state.get("tail")
        return Position(
            epoch=int(state["epoch"]),
            at=int(state["at"]),
            tail=None if tail is None else (int(tail[0]), int(tail[1])),
            inner=state.get("inner"),
            world=int(state.get("world", 0)),
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise Complaint(f"this is not a position in the data: {state!r}") from error


@dataclass(frozen=True)
class WalkPlan:
    """Where a rank begins in the data, and how far it goes."""

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
    """Called only when a checkpoint is saved: some loaders take long to say where they are."""


def own_state(way: WalkPlan) -> Any:  # Any: a plain tree
    """The state that a loader with its own position continues from; None at the beginning."""
    inner = way.position.inner
    if inner is None and way.position.at:
        raise Complaint(
            "the loader keeps its own position, and the checkpoint does not have it",
            "use the kind of loader that the run was started with, or start a new run",
        )
    if inner is not None and way.position.world not in (0, way.world):
        raise Complaint(
            f"the loader keeps its own position, which is valid for {way.position.world} ranks; "
            f"now there are {way.world}",
            f"start {way.position.world} workers, or use a DataLoader without a custom sampler",
        )
    return inner


def known_position(position: Position) -> Callable[[], Position]:
    """A position that needs no asking."""
    return lambda: position


def announce_epoch(epoch: int, *parts: object) -> None:
    """Tells the epoch to those parts that shuffle by it."""
    for part in parts:
        announced = getattr(part, "set_epoch", None)
        if callable(announced):
            announced(epoch)


def gave_nothing(epoch: int, world: int) -> Complaint:
    """The error for data that ended at once."""
    needed = "nothing" if world == 1 else f"less than one element for each of {world} ranks"
    return Complaint(
        f"the data gave {needed} in epoch {epoch}",
        "if it can be read only once, as a generator, use something that can be iterated again",
    )
