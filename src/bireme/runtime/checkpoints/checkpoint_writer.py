"""Writes one checkpoint with all ranks: each its own files, and rank 0 makes it visible at the end.

Rank 0 opens a staging area for the step, which no process before it can have known: its name has a nonce. The
others look for it, write into it and stay until it has become a checkpoint, so that no rank takes for its own
what an earlier life of it left behind.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
import zlib
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Optional, Protocol, Set, Tuple

from .consensus import Meeting, Patience, pauses
from .storage import checkpoint_format, checkpoint_reader, owner_marks
from .storage.checkpoint_format import Array, CheckpointHead, Chunk, Sheet, Signature
from .storage.ownership import Marks, Ownership, SeenMark
from .values import Owner

FAILED = "rank-{}.failed"
FULL = (errno.ENOSPC, errno.EDQUOT)
"""What a disk says that has no room, or no room for this user."""
LOST = "another run or a later attempt writes here now"


@dataclass(frozen=True)
class Load:
    """A rank's copy of its state, ready to be written."""

    step: int
    metrics: Dict[str, float]
    parts: Dict[str, Any]
    own: Any
    arrays: Tuple[Array, ...]
    chunks: Tuple[Chunk, ...]
    is_sharded: bool
    size: int
    buffer: Any
    copied: Callable[[], None]


class StagingArea(Protocol):
    """A checkpoint in the making, wherever it is made."""

    nonce: str

    def is_there(self) -> bool: ...

    def was_committed(self) -> bool: ...

    def write(self, file: str, blocks: Any) -> None: ...

    def sign(self, file: str, text: bytes) -> None: ...

    def signed(self) -> Dict[str, int]: ...

    def read(self, file: str) -> bytes: ...

    def commit(self, step: int, serial: int, head: bytes) -> str: ...

    def abandon(self) -> None: ...


class CheckpointStore(checkpoint_reader.Shelf, Protocol):
    """Where checkpoints can be written and removed."""

    pause: float
    longest_pause: float

    def snapshot(self) -> checkpoint_reader.Shelf: ...

    def marks(self) -> Marks: ...

    def is_writable(self) -> bool: ...

    def clear(self, owner: Owner, session: str) -> None: ...

    def begin(self, owner: Owner, session: str, step: int, nonce: str) -> Any: ...

    def find(self, owner: Owner, session: str, step: int) -> Any: ...

    def remove(self, name: str, owner: Owner) -> bool: ...

    def note(self, name: str, text: bytes) -> None: ...

    def noted(self, name: str) -> Optional[bytes]: ...

    def unnote(self, prefix: str, but: str = "") -> None: ...


class GivenUp(Exception):
    """A checkpoint was not finished, for a reason that is not this rank's disk."""


class OtherRankHasNoRoom(GivenUp):
    """Another rank has found no room."""


class Divided(Exception):
    """The ranks do not train the same: what they compute from here on is wrong."""


class Writer:
    """Writes the checkpoints of one rank, one at a time."""

    def __init__(
        self,
        store: CheckpointStore,
        owner: Owner,
        meeting: Meeting,
        tell: Callable[[str], None],
        patience: Patience,
    ) -> None:
        self._store = store
        self._owner = owner
        self._meeting = meeting
        self._tell = tell
        self._patience = patience
        self._absent: Set[int] = set()
        self._awaited_since: Optional[float] = None
        self._has_failed = False
        self._cleared = ""
        self._saved = 0
        self._leader = ""
        self._divided: Optional[SeenMark] = None

    def fail(self) -> None:
        """Says that the script has failed: perhaps another rank is dead, and would be waited for in vain."""
        self._has_failed = True

    def hurry(self) -> None:
        """Says that the loop now waits for what is being written."""
        self._awaited_since = time.monotonic()

    def lead(self, load: Load, ownership: Ownership) -> str:
        """Rank 0: writes, waits for the others, makes the checkpoint visible; answers its name."""
        self._confirm(ownership)
        session = ownership.session
        if self._cleared != session:
            self._store.clear(self._owner, session)
            self._cleared, self._saved = session, 0
        area: StagingArea = self._store.begin(self._owner, session, load.step, os.urandom(8).hex())
        try:
            # The order is what makes a checkpoint whole or absent: own files, those of all others, then the
            # right to write is confirmed once more (it may have been lost while ranks were waited for),
            # and last the head, with which the area becomes a checkpoint.
            signatures = {0: _put(area, 0, load)}
            signatures.update(self._gather(area, load, ownership))
            if len(signatures) == self._owner.world_size:
                # Before there is a newer one: a life after this must not take it for what rank 0 restores.
                self._meeting.forget()
            self._confirm(ownership)
            self._saved += 1
            head = CheckpointHead(
                load.step,
                checkpoint_format.serial(ownership.generation, self._saved),
                time.time(),
                self._owner.run,
                self._owner.attempt,
                self._owner.world_size,
                area.nonce,
                load.metrics,
                signatures,
            )
            return area.commit(load.step, head.serial, checkpoint_format.write_head(head))
        except BaseException:
            area.abandon()
            raise

    def follow(self, load: Load) -> bool:
        """Any other rank: writes into the area that rank 0 opened, until that has become a checkpoint.

        False if it has not, and rank 0 does not write this step now.
        """
        rank = self._owner.rank
        self._awaited_since = self._divided = None
        for wait in pauses(self._store, self._patience.to_end):
            area = self._opened(load.step)
            if area is None:
                if self._is_leaderless(wait):
                    # Its disk may have refused at once; then it has told so, and cannot tell us through it.
                    self._absent = {0}
                    raise GivenUp(f"rank 0 did not begin to save it within {wait:.0f} s")
                continue
            self._absent = set()
            try:
                _put(area, rank, load)
            except FileNotFoundError:
                if area.is_there():
                    raise
                continue  # it was left over by an earlier life, and rank 0 has cleared it away
            except OSError as error:
                is_full = error.errno in FULL
                with contextlib.suppress(OSError):
                    if is_full:
                        area.write(checkpoint_format.data_file(rank), [])  # leaves room to say so
                    area.sign(FAILED.format(rank), str(error.strerror).encode())
                # Rank 0 may make room, and begin anew.
                if not is_full or self._is_over(area, load.step):
                    raise
                continue
            if self._is_over(area, load.step):
                try:
                    return area.was_committed()
                except OSError:
                    return False  # it cannot be seen from here; rank 0 knows it in any case
        raise GivenUp(f"rank 0 did not finish it within {self._patience.to_end:.0f} s")

    def _confirm(self, ownership: Ownership) -> None:
        if not ownership.confirm(self._meeting.origin):
            raise GivenUp(LOST if ownership.lost_to else "this run's owner file was removed from the folder")

    def _opened(self, step: int) -> Optional[StagingArea]:
        """Where rank 0 of this very attempt writes the step: a rank that was left over finds nothing."""
        try:
            seen = self._store.marks().read()
        except owner_marks.Malformed:
            return None
        if seen is None or not seen.mark.is_of(self._owner):
            return None
        session = seen.mark.session
        if self._owner.launch and self._leader not in ("", session):
            # Nothing says which attempt this is; so it goes with the rank 0 that it has begun with.
            raise GivenUp("rank 0 was started again, and this rank was not")
        area: Optional[StagingArea] = self._store.find(self._owner, session, step)
        if area is None or self._is_divided(seen):
            return None
        self._leader = session
        return area

    def _is_divided(self, seen: SeenMark) -> bool:
        """Whether the mark is of a rank 0 that has restored something else; raises Divided if that one lives.

        An earlier life of it has, and its mark is there until the next one has set its own.
        """
        mine, its = self._meeting.origin, seen.mark.origin
        if None in (mine, its) or mine == its:
            return False
        if (
            self._divided
            and self._divided.mark.session == seen.mark.session
            and self._divided.tag != seen.tag
        ):
            raise Divided("rank 0 has restored another checkpoint than this rank")
        if self._divided is None or self._divided.mark.session != seen.mark.session:
            self._divided = seen
        return True

    def _is_leaderless(self, waited: float) -> bool:
        since = self._awaited_since
        if since is None:
            return waited > self._patience.to_begin
        # The loop waits too: from then on it is not kept for long.
        limit = self._patience.after_absence if self._absent else self._patience.when_awaited
        return min(waited, time.monotonic() - since) > limit or waited > self._patience.to_begin

    def _is_over(self, area: StagingArea, step: int) -> bool:
        """Waits until the area is gone: True if it became a checkpoint, or rank 0 has given the step up."""
        stillness = _Stillness()
        for _ in pauses(self._store, self._patience.to_end):
            if not area.is_there():
                break
            if self._is_failing() and self._is_dead(stillness, area):
                raise GivenUp("rank 0 does not go on with it")
        if area.was_committed():
            return True
        # Given up by rank 0, or a left-over that it has just cleared: then it opens a new one at once, or as
        # soon as it has removed an older checkpoint for it.
        return all(self._opened(step) is None for _ in pauses(self._store, self._patience.when_awaited))

    def _gather(self, area: StagingArea, load: Load, ownership: Ownership) -> Dict[int, Signature]:
        """The signatures of the others. One that does not turn up is left out, if it has no tensors."""
        signatures: Dict[int, Signature] = {}
        missing = set(range(1, self._owner.world_size))
        stillness = _Stillness()
        for waited in pauses(self._store, self._patience.to_end):
            if ownership.lost_to is not None:
                raise GivenUp(LOST)
            files = area.signed() if missing else {}
            for rank in sorted(missing):
                if checkpoint_format.sheet_file(rank) in files:
                    text = area.read(checkpoint_format.sheet_file(rank))
                    signatures[rank] = Signature(
                        files[checkpoint_format.data_file(rank)], len(text), zlib.crc32(text)
                    )
                elif FAILED.format(rank) in files:
                    why = area.read(FAILED.format(rank)).decode(errors="replace")
                    kind = OtherRankHasNoRoom if why in map(os.strerror, FULL) else GivenUp
                    raise kind(f"rank {rank} could not write: {why}")
            missing -= set(signatures)
            patience = self._patience
            late = [
                rank
                for rank in missing
                if checkpoint_format.data_file(rank) not in files
                and waited > (patience.after_absence if rank in self._absent else patience.to_begin)
            ]
            if len(late) == len(missing):
                break
            if missing and self._is_failing() and self._is_dead(stillness, area):
                # Not without them: a run that continues from the one before computes the same numbers again.
                does = "does" if len(missing) == 1 else "do"
                raise GivenUp(f"{_numbers(missing)} {does} not go on with it")
        self._absent = missing
        if missing:
            must = "every rank must call save, with a folder that all ranks share"
            what = f"{_numbers(missing)} did not save: {must}"
            if load.is_sharded:
                raise GivenUp(what)  # pieces of tensors would be missing
            lacks = "the random state and data position of these ranks"
            self._tell(f"{what}; the checkpoint is kept without {lacks}")
        return signatures

    def _is_failing(self) -> bool:
        # A script without a `with` block has ended, well or not, when the interpreter waits for this thread.
        return self._has_failed or not threading.main_thread().is_alive()

    def _is_dead(self, stillness: _Stillness, area: StagingArea) -> bool:
        """Whether no rank has written anything for a while."""
        try:
            files = area.signed()
        except FileNotFoundError:
            files = {}
        return stillness.seconds(files) > self._patience.when_awaited


def _numbers(ranks: Set[int]) -> str:
    listed = ", ".join(str(rank) for rank in sorted(ranks)[:8])
    return f"rank {listed}" if len(ranks) == 1 else f"ranks {listed}"


class _Stillness:
    """Since when something has not changed."""

    def __init__(self) -> None:
        self._last: object = None
        self._since = 0.0

    def seconds(self, state: object) -> float:
        now = time.monotonic()
        if state != self._last:
            self._last, self._since = state, now
        return now - self._since


def _put(area: StagingArea, rank: int, load: Load) -> Signature:
    """Writes a rank's two files; the sheet last, because it vouches for the other."""
    load.copied()
    crcs: List[int] = []

    def blocks() -> Iterator[memoryview]:
        view = memoryview(load.buffer)
        for begin, end in checkpoint_format.blocks(load.size):
            crcs.append(zlib.crc32(view[begin:end]))
            yield view[begin:end]

    area.write(checkpoint_format.data_file(rank), blocks())
    parts = load.parts if rank == 0 else {}
    sheet = Sheet(
        rank, parts, load.own, load.arrays, load.chunks, load.size, checkpoint_format.BLOCK, tuple(crcs)
    )
    text = checkpoint_format.write_sheet(sheet)
    area.sign(checkpoint_format.sheet_file(rank), text)
    return checkpoint_format.sign(sheet, text)
