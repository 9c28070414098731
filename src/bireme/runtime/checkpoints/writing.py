"""How do ranks write one checkpoint together: each its own files, and rank 0 makes it visible at the end.

Rank 0 opens a place for the step, which no process before it can have known: its name has a nonce. The others
look for it, write into it and stay until it has become a checkpoint, so that nobody takes for its own what an
earlier life of it left behind.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import zlib
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Optional, Protocol, Set, Tuple

from . import layout, reading
from .layout import Array, Chunk, Head, Sheet, Signature
from .values import Owner, Torn

FAILED = "rank-{}.failed"


@dataclass(frozen=True)
class Patience:
    """How many seconds rank 0 waits for the others, and they for it."""

    to_begin: float = 60.0
    to_end: float = 1800.0
    when_awaited: float = 5.0
    """For rank 0 to begin, once the loop of this rank has to wait for it; for anybody to do anything, once
    the script has failed."""
    after_absence: float = 1.0
    """For ranks that did not turn up the last time."""


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


class Place(Protocol):
    """A checkpoint in the making, wherever it is made."""

    nonce: str

    def is_there(self) -> bool: ...

    def write(self, file: str, blocks: Any) -> None: ...

    def sign(self, file: str, text: bytes) -> None: ...

    def signed(self) -> Dict[str, int]: ...

    def read(self, file: str) -> bytes: ...

    def commit(self, step: int, serial: int, head: bytes) -> str: ...

    def abandon(self) -> None: ...


class Store(reading.Shelf, Protocol):
    """Where checkpoints can be written and removed."""

    def begin(self, step: int, attempt: int, nonce: str) -> Any: ...

    def find(self, step: int, attempt: int) -> Any: ...

    def remove(self, name: str) -> bool: ...


class GivenUp(Exception):
    """A checkpoint was not finished, for a reason that is not this rank's disk."""


class Writer:
    """Writes the checkpoints of one rank, one at a time."""

    def __init__(self, store: Store, owner: Owner, tell: Callable[[str], None], patience: Patience) -> None:
        self._store = store
        self._owner = owner
        self._tell = tell
        self._patience = patience
        self._absent: Set[int] = set()
        self._awaited_since: Optional[float] = None
        self._has_failed = False

    def fail(self) -> None:
        """Says that the script has failed: perhaps another rank is dead, and would be waited for in vain."""
        self._has_failed = True

    def hurry(self) -> None:
        """Says that the loop now waits for what is being written."""
        self._awaited_since = time.monotonic()

    def lead(self, load: Load, is_lost: Callable[[], bool]) -> str:
        """Rank 0: writes, waits for the others, makes the checkpoint visible; answers its name."""
        place: Place = self._store.begin(load.step, self._owner.attempt, os.urandom(8).hex())
        try:
            signatures = {0: _put(place, 0, load)}
            signatures.update(self._gather(place, load))
            if is_lost():
                raise GivenUp("another run or a later attempt writes here now")
            serial = 1 + max((one.serial for one in self._heads()), default=0)
            head = Head(
                load.step,
                serial,
                time.time(),
                self._owner.run,
                self._owner.attempt,
                self._owner.world_size,
                place.nonce,
                load.metrics,
                signatures,
            )
            return place.commit(load.step, serial, layout.write_head(head))
        except BaseException:
            place.abandon()
            raise

    def follow(self, load: Load) -> None:
        """Any other rank: writes into the place that rank 0 opened, until that has become a checkpoint."""
        step, attempt, rank = load.step, self._owner.attempt, self._owner.rank
        self._awaited_since = None
        for wait in _pauses(self._patience.to_end):
            place: Optional[Place] = self._store.find(step, attempt)
            if place is None:
                if self._is_leaderless(wait):
                    # Its disk may have refused at once; then it has told so, and cannot tell us through it.
                    self._absent = {0}
                    raise GivenUp(f"rank 0 did not begin to save it within {wait:.0f} s")
                continue
            self._absent = set()
            try:
                _put(place, rank, load)
            except FileNotFoundError:
                if place.is_there():
                    raise
                continue  # it was left over by an earlier life, and rank 0 has cleared it away
            except OSError as error:
                with contextlib.suppress(OSError):
                    place.sign(FAILED.format(rank), str(error.strerror).encode())
                raise
            if self._is_over(place, step):
                return
        raise GivenUp(f"rank 0 did not finish it within {self._patience.to_end:.0f} s")

    def _is_leaderless(self, waited: float) -> bool:
        since = self._awaited_since
        if since is None:
            return waited > self._patience.to_begin
        limit = self._patience.after_absence if self._absent else self._patience.when_awaited
        return min(waited, time.monotonic() - since) > limit or waited > self._patience.to_begin

    def _is_over(self, place: Place, step: int) -> bool:
        """Waits until the place is gone: True if it became a checkpoint, or nobody writes this step now."""
        stillness = _Stillness()
        for _ in _pauses(self._patience.to_end):
            if not place.is_there():
                break
            if self._is_failing() and self._is_dead(stillness, place):
                raise GivenUp("rank 0 does not go on with it")
        if any(head.nonce == place.nonce for head in self._heads(step)):
            return True
        # Given up by rank 0, or a left-over that it has just cleared: then it opens a new one at once.
        return all(self._store.find(step, self._owner.attempt) is None for _ in _pauses(1.0))

    def _gather(self, place: Place, load: Load) -> Dict[int, Signature]:
        """The signatures of the others. One that does not turn up is left out, if it has no tensors."""
        signatures: Dict[int, Signature] = {}
        missing = set(range(1, self._owner.world_size))
        stillness = _Stillness()
        for waited in _pauses(self._patience.to_end):
            files = place.signed() if missing else {}
            for rank in sorted(missing):
                if layout.sheet_file(rank) in files:
                    text = place.read(layout.sheet_file(rank))
                    signatures[rank] = Signature(files[layout.data_file(rank)], len(text), zlib.crc32(text))
                elif FAILED.format(rank) in files:
                    raise GivenUp(f"rank {rank} could not write: {place.read(FAILED.format(rank)).decode()}")
            missing -= set(signatures)
            if all(self._is_late(rank, files, waited) for rank in missing):
                break
            if missing and self._is_failing() and self._is_dead(stillness, place):
                # Not without them: who goes on from the one before computes the same numbers again.
                raise GivenUp(f"rank {_numbers(missing)} does not go on with it")
        self._absent = missing
        if missing:
            self._miss(missing, load.is_sharded)
        return signatures

    def _is_failing(self) -> bool:
        # A script without a `with` block has ended, well or not, when the interpreter waits for this thread.
        return self._has_failed or not threading.main_thread().is_alive()

    def _is_dead(self, stillness: _Stillness, place: Place) -> bool:
        """Whether nobody has written anything for a while."""
        try:
            files = place.signed()
        except FileNotFoundError:
            files = {}
        return stillness.seconds(files) > self._patience.when_awaited

    def _is_late(self, rank: int, files: Dict[str, int], waited: float) -> bool:
        if layout.data_file(rank) in files:
            return False
        first = self._patience.to_begin
        return waited > (self._patience.after_absence if rank in self._absent else first)

    def _miss(self, missing: Set[int], is_sharded: bool) -> None:
        ranks = _numbers(missing)
        what = f"rank {ranks} did not save: every rank must call save, with a folder that all ranks share"
        if is_sharded:
            raise GivenUp(what)
        self._tell(
            f"{what}; the checkpoint is kept without the random state and data position of these ranks"
        )

    def _heads(self, step: Optional[int] = None) -> List[Head]:
        heads = []
        for name in self._store.names():
            if step is None or layout.step_of(name) == step:
                with contextlib.suppress(Torn):
                    heads.append(reading.head(self._store, name))
        return heads


def _numbers(ranks: Set[int]) -> str:
    return ", ".join(str(rank) for rank in sorted(ranks)[:8])


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


def _put(place: Place, rank: int, load: Load) -> Signature:
    """Writes a rank's two files; the sheet last, because it vouches for the other."""
    load.copied()
    crcs: List[int] = []

    def blocks() -> Iterator[memoryview]:
        view = memoryview(load.buffer)
        for begin, end in layout.blocks(load.size):
            crcs.append(zlib.crc32(view[begin:end]))
            yield view[begin:end]

    place.write(layout.data_file(rank), blocks())
    parts = load.parts if rank == 0 else {}
    sheet = Sheet(rank, parts, load.own, load.arrays, load.chunks, load.size, layout.BLOCK, tuple(crcs))
    text = layout.write_sheet(sheet)
    place.sign(layout.sheet_file(rank), text)
    return layout.sign(sheet, text)


def _pauses(limit: float) -> Iterator[float]:
    """The seconds since the first call, at growing intervals, until the limit has passed."""
    began, pause = time.monotonic(), 0.002
    while True:
        waited = time.monotonic() - began
        yield waited
        if waited > limit:
            return
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
