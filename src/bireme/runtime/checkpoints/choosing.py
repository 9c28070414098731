"""Which checkpoint is restored: the newest that is whole, or the one of a given step."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, Optional

from ..script.complaints import Complaint
from . import reading
from .layout import Head, Sheet
from .reading import Shelf
from .values import Owner, Torn


@dataclass(frozen=True)
class Opened:
    """A checkpoint whose checksums are verified, and the bytes that this rank needs."""

    name: str
    head: Head
    common: Sheet
    common_data: Any
    mine: Optional[Sheet]
    mine_data: Any
    sheets: Dict[int, Sheet]


@contextlib.contextmanager
def chosen(
    shelf: Shelf, owner: Owner, gang: Any, step: Optional[int], tell: Callable[[str], None]
) -> Iterator[Optional[Opened]]:
    """The checkpoint to restore, kept from being removed meanwhile; None if there is none."""
    for name in _proposals(shelf, owner, gang, step, tell):
        with shelf.hold(name):
            opened: Optional[Opened] = None
            try:
                opened = _open(shelf, name, owner, gang)
            except Torn as torn:
                tell(f"checkpoint {name} is torn and skipped: {torn}")
            if gang.agree(opened is not None):
                yield opened
                return
    yield None


def _proposals(
    shelf: Shelf, owner: Owner, gang: Any, step: Optional[int], tell: Callable[[str], None]
) -> Iterator[str]:
    """The names to try, newest first: those that rank 0 sees."""
    both = reading.newest_first(shelf)
    for one, _ in both:
        if not one.is_good and owner.rank == 0 and step in (None, one.step):
            tell(f"checkpoint {one.name} is torn and skipped: {one.why_not}")
    heads = {head.serial: one.name for one, head in both if head and step in (None, head.step)}
    if not gang.is_talking:
        yield from heads.values()
    else:
        queue = list(heads)
        while True:
            serial = gang.hear(queue.pop(0) if queue and owner.rank == 0 else -1)
            if serial < 0:
                break
            # Another machine may not see it yet; then `_open` finds it missing, and all go on to the next.
            yield heads.get(serial, f"step-{0:09d}.0")
    if step is not None:
        there = ", ".join(str(one.step) for one, _ in reversed(both) if one.is_good) or "none"
        raise Complaint(f"there is no good checkpoint of step {step}", f"the steps that are there: {there}")


def _open(shelf: Shelf, name: str, owner: Owner, gang: Any) -> Opened:
    """Verifies everything. Ranks that can talk share the work on what only one of them needs."""
    head = reading.head(shelf, name)
    if 0 not in head.ranks:
        raise Torn("rank 0 has written nothing")
    sheets: Dict[int, Sheet] = {}
    data: Dict[int, Any] = {}
    for rank in head.ranks:
        is_needed = rank in (0, owner.rank)
        is_my_turn = not gang.is_talking or rank % owner.world_size == owner.rank
        sheets[rank] = reading.sheet(shelf, name, head, rank)
        if is_needed:
            data[rank] = reading.data(shelf, name, sheets[rank])
        elif is_my_turn:
            reading.verify(shelf, name, sheets[rank])
    mine = sheets.get(owner.rank)
    return Opened(name, head, sheets[0], data[0], mine, data.get(owner.rank), sheets)
