"""Makes all ranks restore the same checkpoint: those that can talk agree, the others follow rank 0's note.

Ranks of one process group of torch agree by talking. Ranks that cannot talk read in the place itself which
checkpoint all of them restore: rank 0 notes it for its attempt, and the note goes away before the first
checkpoint that all ranks have saved. So a note that an earlier life of rank 0 has left names what is still
the newest. Should that not be so, the mark of the place tells the others at their next save what rank 0 has
restored in truth. To read and verify what is large takes long; meanwhile the note says that rank 0 is busy,
and changes at each heartbeat.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Protocol

from ..script.complaints import Passing
from .storage import checkpoint_format, owner_marks, ownership
from .storage.ownership import SeenMark
from .values import Owner

_NONCE = re.compile(r"[0-9a-f]{1,64}")


@dataclass(frozen=True)
class Patience:
    """How many seconds rank 0 waits for the others, and they for it."""

    to_begin: float = 60.0
    to_end: float = 1800.0
    when_awaited: float = 5.0
    """For rank 0 to begin, once the loop of this rank has to wait for it; for any rank to do anything, once
    the script has failed."""
    after_absence: float = 1.0
    """For ranks that did not turn up the last time."""
    to_choose: float = 600.0
    """For rank 0 to say which checkpoint is restored, since it was last seen to look for one."""
    to_choose_nothing: float = 10.0
    """The same, where there is none to be seen, and where rank 0 may have no way to say it."""
    to_tell: float = 10.0
    """After which a rank that waits for that says so."""
    heartbeat: float = ownership.PERIOD
    silence: float = ownership.SILENCE
    """After which the owner of a place counts as dead."""


class Paced(Protocol):
    """A place, and how often it may be looked at: a bucket is asked over a network, and counts."""

    pause: float
    longest_pause: float


def pauses(place: Paced, limit: float) -> Iterator[float]:
    """The seconds since the first call, at growing intervals, until the limit has passed."""
    began, pause = time.monotonic(), place.pause
    while True:
        waited = time.monotonic() - began
        yield waited
        if waited > limit:
            return
        time.sleep(min(pause, max(0.001, limit - waited)))
        pause = min(pause * 1.5, place.longest_pause)


class Alone:
    """A rank that cannot talk to the others: all look at the same files and come to the same answer."""

    is_talking = False

    def hear(self, number: int) -> int:
        return number

    def agree(self, verdict: bool) -> bool:
        return verdict


class RankGroup:
    """The ranks of torch's default process group."""

    is_talking = True

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        talks_by_gpu = torch.distributed.get_backend() == "nccl"
        self._device = f"cuda:{torch.cuda.current_device()}" if talks_by_gpu else "cpu"

    def hear(self, number: int) -> int:
        """What rank 0 says."""
        said = self._torch.tensor([number], dtype=self._torch.int64, device=self._device)
        self._torch.distributed.broadcast(said, 0)
        return int(said.item())

    def agree(self, verdict: bool) -> bool:
        """Whether all ranks say yes."""
        said = self._torch.tensor([int(verdict)], dtype=self._torch.int64, device=self._device)
        self._torch.distributed.all_reduce(said, self._torch.distributed.ReduceOp.MIN)
        return bool(said.item())


def gang(owner: Owner) -> Any:
    """The ranks that decide together: those of torch.distributed, if it is up and has all of them."""
    torch: Optional[Any] = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return Alone()
    if distributed.get_world_size() != owner.world_size or owner.world_size == 1:
        return Alone()
    return RankGroup(torch)


class ChosenCheckpoint(NamedTuple):
    """A checkpoint by its name and nonce; both are empty if there is none to restore."""

    name: str = ""
    nonce: str = ""
    why_not: str = ""
    """Why rank 0 does not continue at all."""


class Meeting:
    """How one rank tells or hears what is restored: for each call of `restore` one choice."""

    def __init__(self, store: Any, owner: Owner, patience: Patience, tell: Callable[[str], None]) -> None:
        self._store = store
        self._owner = owner
        self._patience = patience
        self._tell = tell
        self._count = 0
        self._is_noted = False
        self._heard = ""
        self.origin: Optional[str] = None
        """The nonce of the last choice, empty if it was to begin anew; None if none was made."""

    @property
    def leads(self) -> bool:
        return self._owner.rank == 0 and self._owner.world_size > 1

    @property
    def follows(self) -> bool:
        return self._owner.rank != 0 and self._owner.world_size > 1

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """Rank 0: tells the others that it lives and looks for what to restore, until it can say it."""
        is_over = threading.Event()

        def tell() -> None:
            beat = 0
            while not is_over.wait(self._patience.heartbeat):
                beat += 1
                with contextlib.suppress(OSError):  # `say` will tell
                    self.note_busy(beat)

        thread = threading.Thread(target=tell, name="bireme-busy", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()  # it must not write over what is said next

    def note_busy(self, beat: int) -> None:
        """Rank 0: tells the others that it has not chosen yet; another beat, that it still lives."""
        self._note(f"{self._names()}{self._count + 1}", {"beat": beat})

    def say(self, choice: ChosenCheckpoint) -> None:
        """Rank 0: tells the others what it restores."""
        name = self._next()
        self.origin = choice.nonce
        try:
            self._note(name, choice._asdict())
        except OSError as error:
            self._tell(
                f"the other ranks cannot be told which checkpoint is restored: {error.strerror}: "
                f"{self._store.where}"
            )

    def hear(self) -> Optional[ChosenCheckpoint]:
        """Any other rank: what rank 0 restores; None if this rank has to find out by itself."""
        self._heard = self._next()
        choice = self.again()
        if choice is not None:
            return choice
        patience, before = self._patience, self._mark()
        limit = patience.to_choose if self._can_be_told() else patience.to_choose_nothing
        since, noted, is_told = 0.0, self._store.noted(self._heard), False
        for waited in pauses(self._store, patience.to_end):
            last, noted = noted, self._store.noted(self._heard)
            choice = self._understood(noted)
            if choice is not None:
                return choice
            if noted != last:
                # Rank 0 is busy, so it lives; from now on a few lost heartbeats do not count.
                since, limit = waited, max(limit, patience.silence)
            is_due = not since and waited > min(limit, 2.5 * patience.heartbeat)
            now = self._mark() if is_due and before is not None else None
            if before and now and now.tag != before.tag and now.mark.is_of(self._owner):
                # Rank 0 of this attempt lives and has saved: this rank was started again, alone.
                self._tell("rank 0 is past its restore: this rank continues from the newest checkpoint")
                return None
            if waited - since > limit:
                self._refuse_unheard(limit)
                return None
            if waited > patience.to_tell and not is_told:
                is_told = True
                self._tell("waiting until rank 0 says which checkpoint it restores")
        self._refuse_unheard(patience.to_end)
        return None

    def again(self) -> Optional[ChosenCheckpoint]:
        """What rank 0 says now, should the choice have been one of an earlier life of it."""
        return self._understood(self._store.noted(self._heard))

    def forget(self) -> None:
        """Rank 0: all ranks have saved since, so none waits for a choice any more."""
        if self._is_noted:
            self._store.unnote(self._names())
            self._is_noted = False

    def _understood(self, noted: Optional[bytes]) -> Optional[ChosenCheckpoint]:
        choice = read_choice(noted)
        if choice is not None:
            self.origin = choice.nonce
        return choice

    def _refuse_unheard(self, limit: float) -> None:
        self.origin = None
        what = f"rank 0 has not said within {limit:.0f} s which checkpoint it restores"
        hint = "every rank must call restore, with a place for checkpoints that all ranks share"
        if self._can_be_told():
            raise Passing(what, hint)
        self._tell(f"{what}; {hint}. This rank goes by what it sees in {self._store.where}")

    def _can_be_told(self) -> bool:
        """Whether there is something to restore, and rank 0 can note what."""
        return bool(self._store.names()) and self._store.is_writable()

    def _note(self, name: str, content: Dict[str, Any]) -> None:
        if not self._is_noted:
            # Of an earlier life of this rank, which may have restored more than once.
            self._store.unnote(self._names(), but=name)
        self._store.note(name, json.dumps(content).encode("ascii"))
        self._is_noted = True

    def _mark(self) -> Optional[SeenMark]:
        try:
            found: Optional[SeenMark] = self._store.marks().read()
        except (OSError, owner_marks.Malformed):
            return None
        return found

    def _next(self) -> str:
        self._count += 1
        return f"{self._names()}{self._count}"

    def _names(self) -> str:
        owner = self._owner
        return f".choice-{owner_marks.key(owner.run)}-{owner.attempt}-{owner.launch or '0'}-"


def read_choice(text: Optional[bytes]) -> Optional[ChosenCheckpoint]:
    """The choice that a note tells; None if there is no note, or one that is not a choice."""
    try:
        content = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict):
        return None
    values = [content.get(name) for name in ChosenCheckpoint._fields]
    if not all(isinstance(value, str) and len(value) <= 1000 for value in values):
        return None
    # What is told reaches a terminal, also beside the name of a checkpoint.
    name, nonce, why_not = map(str, values)
    choice = ChosenCheckpoint(name, nonce, "".join(char if char.isprintable() else "?" for char in why_not))
    is_none = not name and not nonce
    is_sound = checkpoint_format.step_of(name) is not None and _NONCE.fullmatch(nonce)
    return choice if is_none or is_sound else None
