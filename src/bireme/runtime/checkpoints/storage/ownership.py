"""Ownership of a place of checkpoints: two runs must never write into one.

Rank 0 sets a mark there and renews it from a thread for as long as it lives. A process that finds the mark of
another waits until it has been silent for long, and replaces it only if no other did meanwhile; so
the one that was replaced finds out at its next renewal, and before each commit.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from dataclasses import dataclass, replace
from typing import Any, Callable, Optional, Protocol

from ...script.complaints import Complaint, Passing
from ..values import Owner
from . import owner_marks
from .owner_marks import MarkVerdict, OwnerMark

Tell = Callable[[str], None]
PERIOD = 5.0
SILENCE = 30.0
SILENT_PERIODS = 6
_TRIES = 5
_TO_END = 10.0
"""The seconds that an owner waits at its end for the renewal that is on its way."""


@dataclass(frozen=True)
class SeenMark:
    """A mark as it was found. `tag` differs whenever it was written again."""

    mark: OwnerMark
    tag: str
    modified: float = 0.0
    """When it was written, by the clock of the place."""


class Overtaken(Exception):
    """The mark was not what it was thought to be; `by` is the one that is there now, if there is one."""

    def __init__(self, by: Optional[OwnerMark]) -> None:
        super().__init__("the mark was replaced" if by else "the mark is gone")
        self.by = by


class Marks(Protocol):
    """Where the mark of a place is kept. Everything here raises OSError if the place cannot be reached."""

    where: str

    def read(self) -> Optional[SeenMark]:
        """The mark that is there; raises Malformed."""
        ...

    def take(self, mark: OwnerMark, over: Optional[SeenMark]) -> SeenMark:
        """Puts a mark where another was seen, or none; raises Overtaken if that has changed."""
        ...

    def renew(self, mark: OwnerMark) -> SeenMark:
        """Writes the mark of the same session again; raises Overtaken if it is not there any more."""
        ...

    def is_there(self, mark: OwnerMark) -> bool:
        """False if the mark is known to be gone; asks nothing over a network."""
        ...

    def age(self, seen: SeenMark) -> float:
        """For how many seconds it has not been written, at least, by the clock of the place."""
        ...


class Ownership:
    """The right to write into a place, from `take` to `release` unless another process takes it."""

    def __init__(self, of: Marks, seen: SeenMark, lock: Optional[Any] = None) -> None:
        self._marks = of
        self._mark = seen.mark
        self._lock = lock
        self._process = os.getpid()
        self._turn = threading.Lock()
        self._end = threading.Event()
        self._is_gone = False
        self.lost_to: Optional[OwnerMark] = None
        # Not to be met in the middle of a request by the end of the interpreter, which it would not survive.
        atexit.register(self.release)
        self._thread = threading.Thread(target=self._renew, name="bireme-owner", daemon=True)
        self._thread.start()

    @property
    def session(self) -> str:
        return self._mark.session

    @property
    def generation(self) -> int:
        return self._mark.generation

    def is_held(self) -> bool:
        """False in a process that was forked, and once the place was removed."""
        if self._process != os.getpid() or self._end.is_set() or self._is_gone:
            return False
        return self._marks.is_there(self._mark)

    def is_replaced(self) -> bool:
        """Whether another process has taken the place; asks, if the mark is not where it was."""
        if self._process != os.getpid() or self._end.is_set():
            return False
        if self.lost_to is None and not self.is_held():
            self.confirm(self._mark.origin)
        return self.lost_to is not None

    def confirm(self, origin: Optional[str] = None) -> bool:
        """Renews the mark now; False if another process owns the place. OSError if that is not known."""
        with self._turn:
            if self.lost_to is None and not self._is_gone:
                self._write(replace(self._mark, beat=self._mark.beat + 1, origin=origin))
            return self.lost_to is None and not self._is_gone

    def release(self) -> None:
        """Gives the place free, so that the next one need not wait to see whether this one lives."""
        atexit.unregister(self.release)
        if self._process == os.getpid() and not self._end.is_set():
            self._end.set()
            self._thread.join(_TO_END)
            # A thread that has not ended waits for a place that cannot be reached, which takes minutes. The
            # mark falls silent by itself.
            if not self._thread.is_alive() and self.lost_to is None and not self._is_gone:
                with contextlib.suppress(OSError):
                    self._write(replace(self._mark, beat=self._mark.beat + 1, is_released=True))
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def left(self) -> str:
        """The session, for this process to take the place again after the mark was removed; else empty.

        The other ranks know this rank by it. Another process may have written since if it was lost to one.
        """
        is_over = self._end.is_set() and not self._thread.is_alive()
        is_ours = self._process == os.getpid() and self.lost_to is None
        return self.session if is_ours and is_over and self._is_gone else ""

    def _renew(self) -> None:
        while not self._end.wait(self._mark.period):
            # What cannot be written now may be the next time; a commit does not go through without it.
            with contextlib.suppress(OSError), self._turn:
                self._write(replace(self._mark, beat=self._mark.beat + 1))
            if self.lost_to is not None or self._is_gone:
                return

    def _write(self, mark: OwnerMark) -> None:
        try:
            self._mark = self._marks.renew(mark).mark
        except Overtaken as error:
            self.lost_to, self._is_gone = error.by, error.by is None
        except owner_marks.Malformed:
            self._is_gone = True


@dataclass(frozen=True)
class OwnershipClaim:
    """Which process wants a place: `is_meant` if the script asked to continue from what is there."""

    owner: Owner
    is_meant: bool = False
    period: float = PERIOD
    silence: float = SILENCE
    session: str = ""
    """Of this process, if it has had the place before and no other has taken it since."""


def take(
    of: Marks, claim: OwnershipClaim, least: Callable[[], int], tell: Tell, lock: Optional[Any] = None
) -> Ownership:
    """Takes the place; raises Complaint if it is another's, OSError if it cannot be written.

    `least` is the lowest generation that is free, as far as the checkpoints tell. With a `lock` that this
    process holds, no process under this kernel is the owner any more, unless the list of processes shows it.
    """
    # Not in between: it takes a while on a slow store, and a zombie renews its mark meanwhile.
    floor = least()
    for _ in range(_TRIES):
        try:
            seen = _replaceable(of, of.read(), claim, tell, has_lock=lock is not None)
        except owner_marks.Malformed as error:
            raise Passing(str(error), "remove it if none does, or choose another place") from None
        generation = 1 + max(seen.mark.generation if seen else 0, floor)
        session = claim.session if seen is None else ""
        mark = owner_marks.made(claim.owner, generation, claim.period, session)
        try:
            taken = of.take(mark, seen)
        except Overtaken:
            continue
        if seen is not None and seen.mark.run != claim.owner.run:
            tell(
                f"{of.where} held the checkpoints of run {seen.mark.shown_run}; from now on it is this run's"
            )
        return Ownership(of, taken, lock)
    raise Passing(f"several processes want to write into {of.where}", "give each run a place of its own")


def refusal(where: str, mark: OwnerMark, owner: Owner, age: Optional[float] = None) -> Complaint:
    """What is said to a process that finds another one writing, which has renewed its mark `age` s ago."""
    writer = "another process of this run" if mark.run == owner.run else f"run {mark.shown_run}"
    seen = "" if age is None else f", alive {age:.0f} s ago"
    return Passing(
        f"{where} is being written by {writer} ({mark.shown_process}{seen})",
        "give each run a place of its own, or end the other one",
    )


def _replaceable(
    of: Marks, seen: Optional[SeenMark], claim: OwnershipClaim, tell: Tell, has_lock: bool
) -> Optional[SeenMark]:
    """The mark that may be replaced, once it may; Complaint if it may not."""
    mark = seen.mark if seen else None
    # The lock alone proves nothing: a process loses it as soon as anything in it closes the file, such as a
    # copy of the whole folder.
    is_dead = mark is not None and (
        owner_marks.is_dead(mark)
        or (has_lock and owner_marks.is_same_kernel(mark) and not owner_marks.is_alive(mark))
    )
    verdict = owner_marks.judge(mark, claim.owner, claim.is_meant, is_dead)
    if seen is None or verdict is MarkVerdict.TAKE:
        return seen
    if verdict is MarkVerdict.FOREIGN:
        raise Complaint(
            f"{of.where} holds the checkpoints of another run, {seen.mark.shown_run}",
            "choose another place, or call run.restore() first to continue from them",
        )
    return _silent(of, seen, claim, tell)


def _silent(of: Marks, seen: SeenMark, claim: OwnershipClaim, tell: Tell) -> SeenMark:
    """Waits until the owner has been silent for long enough, or has given the place free.

    However old the mark is by the clock of the place, it is watched for two of its periods: a place of many
    servers has many clocks.
    """
    mark = seen.mark
    period = max(mark.period, claim.period)
    limit = max(claim.silence, SILENT_PERIODS * mark.period)
    began, age = time.monotonic(), of.age(seen)
    least = min(limit, max(limit - age, 2 * period))
    if least > 1:
        # Outside of Bireme a run has no other name than the place.
        is_named = of.where not in (mark.run, os.path.abspath(mark.run))
        writer = f"run {mark.shown_run} ({mark.shown_process})" if is_named else mark.shown_process
        tell(
            f"{of.where} was written by {writer}, which did not say that it has ended; "
            f"waiting for {least:.0f} s to see if it still lives"
        )
    while time.monotonic() - began < least:
        time.sleep(min(period / 5, 1.0))
        now = of.read()
        if now is None or now.mark.is_released:
            return now or seen
        if now.tag != seen.tag:
            raise refusal(of.where, now.mark, claim.owner, of.age(now))
    return seen
