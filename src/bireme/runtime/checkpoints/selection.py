"""Chooses the checkpoint to restore (the newest that is whole, or that of a given step), and restores it.

A run continues from its own. What other runs have left in the same place counts only if it came before, or if
this run has nothing yet.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from ..script.complaints import Complaint, Passing
from .consensus import ChosenCheckpoint, Meeting, pauses
from .state import parts as state_parts
from .state import plain_values, tensorflow_objects
from .storage import checkpoint_reader
from .storage.checkpoint_format import CheckpointHead, Sheet
from .storage.checkpoint_reader import Shelf
from .values import FoundCheckpoint, Owner, Restored, Torn, Unreadable

_NOTICED = 10.0
"""The seconds within which what one machine has written is seen by another."""


@dataclass(frozen=True)
class OpenedCheckpoint:
    """A checkpoint whose checksums are verified, and the bytes that this rank needs."""

    name: str
    head: CheckpointHead
    common: Sheet
    common_data: Any
    mine: Optional[Sheet]
    mine_data: Any
    sheets: Dict[int, Sheet]


@dataclass(frozen=True)
class Chooser:
    """How one rank finds what all ranks restore: by talking, or else by what rank 0 notes in the place."""

    shelf: Any
    owner: Owner
    gang: Any
    meeting: Meeting
    tell: Callable[[str], None]

    @contextlib.contextmanager
    def chosen(self, step: Optional[int]) -> Iterator[Optional[OpenedCheckpoint]]:
        """The checkpoint to restore, kept from being removed meanwhile; None if there is none."""
        is_quiet = not self.gang.is_talking
        if is_quiet and self.meeting.follows:
            choice = self.meeting.hear()
            if choice is not None:
                with self._as_told(choice) as opened:
                    yield opened
                return
        with contextlib.ExitStack() as stack:
            leads = is_quiet and self.meeting.leads
            try:
                with self.meeting.busy() if leads else contextlib.nullcontext():
                    found = stack.enter_context(self._first_good(step))
            except (Complaint, OSError) as error:
                if leads:
                    self.meeting.say(ChosenCheckpoint(why_not=str(error)[:300]))  # so that none waits in vain
                raise
            if leads:
                self.meeting.say(
                    ChosenCheckpoint(found.name, found.head.nonce) if found else ChosenCheckpoint()
                )
            yield found

    @contextlib.contextmanager
    def _as_told(self, choice: ChosenCheckpoint) -> Iterator[Optional[OpenedCheckpoint]]:
        why = ""
        # Another machine's files may take a moment to be seen here.
        for _ in pauses(self.shelf, _NOTICED):
            choice = (why and self.meeting.again()) or choice
            if choice.why_not:
                raise Passing(f"rank 0 cannot restore: {choice.why_not}")
            if not choice.name:
                yield None
                return
            with self.shelf.hold(choice.name):
                try:
                    opened = found_whole(self.shelf, choice.name, self.owner, self.gang)
                except (Torn, Unreadable) as error:
                    why = str(error)
                    continue
                if opened.head.nonce == choice.nonce:
                    yield opened
                    return
                why = "it is not the one that rank 0 has read"
        raise Passing(
            f"rank 0 restores {choice.name}, which this rank cannot read: {why}",
            "every rank needs the same place for checkpoints",
        )

    @contextlib.contextmanager
    def _first_good(self, step: Optional[int]) -> Iterator[Optional[OpenedCheckpoint]]:
        both = checkpoint_reader.newest_first(self.shelf.snapshot())
        unread: List[str] = []  # what may be whole, and this run's
        for found, head in both:
            if head is not None or step not in (None, found.step):
                continue
            if self.owner.rank == 0:
                how = "is torn and" if found.is_torn else "cannot be read and is"
                self.tell(f"checkpoint {found.name} {how} skipped: {found.why_not}")
            if not found.is_torn and found.run in ("", self.owner.run):
                unread.append(f"{found.name}: {found.why_not}")
        for name in self._proposals(both, step, bool(unread)):
            with self.shelf.hold(name):
                opened: Optional[OpenedCheckpoint] = None
                try:
                    opened = found_whole(self.shelf, name, self.owner, self.gang)
                except Torn as torn:
                    self.tell(f"checkpoint {name} is torn and skipped: {torn}")
                except Unreadable as error:
                    self.tell(f"checkpoint {name} cannot be read and is skipped: {error}")
                    unread.append(f"{name}: {error}")
                if self.gang.agree(opened is not None):
                    yield opened
                    return
        if not self.gang.agree(not unread):
            # To begin anew because of it would throw the work away.
            raise Passing(
                f"the checkpoints in {self.shelf.where} cannot be read: {(unread or ['by another rank'])[0]}",
                "restart when they can, or choose another place to begin anew",
            )
        if step is not None:
            there = ", ".join(str(found.step) for found, _ in reversed(both) if found.is_good) or "none"
            raise Complaint(
                f"there is no good checkpoint of step {step}", f"the steps that are there: {there}"
            )
        yield None

    def _proposals(
        self,
        both: List[Tuple[FoundCheckpoint, Optional[CheckpointHead]]],
        step: Optional[int],
        is_some_unread: bool,
    ) -> Iterator[str]:
        """The names to try, the best first: those that rank 0 sees."""
        named = {head.serial: found.name for found, head in both if head is not None}
        candidates = [head for _, head in both if head is not None and step in (None, head.step)]
        wanted = ordered(candidates, self.owner.run, is_some_unread)
        heads = {head.serial: named[head.serial] for head in wanted}
        if not self.gang.is_talking:
            yield from heads.values()
            return
        queue = list(heads)
        while True:
            serial = self.gang.hear(queue.pop(0) if queue and self.owner.rank == 0 else -1)
            if serial < 0:
                return
            # Another machine may not see it yet; then it is found missing, and all go on to the next.
            yield named.get(serial, f"step-{0:09d}.0")


def ordered(newest_first: List[CheckpointHead], run: str, is_some_unread: bool) -> List[CheckpointHead]:
    """What a run may continue from: its own, then what was there before it; else whatever there is.

    What cannot be read may be its own, and then another run's is not what it wants.
    """
    own = [head for head in newest_first if head.run == run]
    if own:
        oldest = min(head.serial for head in own)
        return own + [head for head in newest_first if head.run != run and head.serial < oldest]
    return [] if is_some_unread else newest_first


def found_whole(shelf: Shelf, name: str, owner: Owner, gang: Any) -> OpenedCheckpoint:
    """Verifies everything. Ranks that can talk share the work on what only one of them needs."""
    head = checkpoint_reader.head(shelf, name)
    if 0 not in head.ranks:
        raise Torn("rank 0 has written nothing")
    sheets: Dict[int, Sheet] = {}
    data: Dict[int, Any] = {}
    for rank in head.ranks:
        is_needed = rank in (0, owner.rank)
        is_my_turn = not gang.is_talking or rank % owner.world_size == owner.rank
        sheets[rank] = checkpoint_reader.sheet(shelf, name, head, rank)
        if is_needed:
            data[rank] = checkpoint_reader.data(shelf, name, sheets[rank])
        elif is_my_turn:
            checkpoint_reader.verify(shelf, name, sheets[rank])
    mine = sheets.get(owner.rank)
    return OpenedCheckpoint(name, head, sheets[0], data[0], mine, data.get(owner.rank), sheets)


def restored(shelf: Shelf, opened: OpenedCheckpoint, parts: Mapping[str, Any]) -> Restored:
    """Puts what was read into the parts; without parts, everything comes back in `values`."""
    saved = opened.common.parts
    absent = [name for name in parts if name not in saved]
    if absent:
        there = ", ".join(saved) or "no part"
        raise Complaint(
            f"{', '.join(absent)} is not in checkpoint {opened.name}, which has {there}",
            "restore what was saved, by the names that it was saved with",
        )
    wanted = parts or dict.fromkeys(saved)
    spread: Dict[str, Any] = {}
    if any(sheet.chunks for sheet in opened.sheets.values()):
        from .state import sharded_tensors

        spread = sharded_tensors.read(shelf, opened.name, opened.sheets, saved, wanted)
    give = state_parts.giving(opened.common.arrays, opened.common_data, spread)
    tensorflow_objects.build(wanted, {name: state_parts.names(saved[name]) for name in wanted})
    plans = [state_parts.plan(name, part, saved[name], give) for name, part in wanted.items()]
    own, of_first = {}, {}
    if opened.mine is not None:
        own = _own(opened.mine, opened.mine_data)
    else:
        of_first = _own(opened.common, opened.common_data)
    values = state_parts.carry_out(plans)
    return Restored(opened.head.step, values, own, opened.head.world_size, opened.name, of_first)


def _own(sheet: Sheet, data: Any) -> Any:
    """What a rank saved as its own: a dict."""
    return state_parts.owned(plain_values.decode(sheet.own, state_parts.giving(sheet.arrays, data, {})))
