"""Keeps the checkpoints of a rank: saves in the background, restores the newest good one, deletes the old.

`save` copies the state and returns; a thread writes it. The copy's memory is reused, so a save waits for the
one before it. Nothing about the disk is raised into the training: it is told, and the next save tries again.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from ..script.complaints import Complaint, Passing
from . import consensus, selection
from .checkpoint_writer import FULL, LOST, CheckpointStore, Divided, GivenUp, Load, OtherRankHasNoRoom, Writer
from .consensus import Meeting, Patience
from .selection import Chooser
from .state import arrays
from .state import parts as state_parts
from .state.arrays import Memory, Shapeless
from .storage import checkpoint_format, checkpoint_reader, checkpoint_retention, locations
from .storage.checkpoint_format import Array, CheckpointHead
from .storage.ownership import Ownership, OwnershipClaim
from .values import FoundCheckpoint as FoundCheckpoint
from .values import Keep as Keep
from .values import Owner as Owner
from .values import Restored as Restored
from .values import Torn, Unreadable

Tell = Callable[[str], None]
MOST_OWNERS = 1 << 30
"""A place that has had more was never ours."""


class Saves:
    """Which saves of one rank worked: a run that ends well without its work on disk must say so."""

    def __init__(self) -> None:
        self._good: Optional[int] = None
        self._failed = 0
        self._last = -1
        self._why = ""

    def worked(self, step: int) -> None:
        """A checkpoint of the step is there, saved by this process or before it."""
        self._good, self._failed = step, 0

    def failed(self, step: int, why: str) -> None:
        self._failed, self._last, self._why = self._failed + 1, step, why

    @property
    def lost(self) -> str:
        """What is not on disk, as a sentence without its subject; empty if all of it is."""
        if not self._failed:
            return ""
        what, which = "saved no checkpoint", "all"
        if self._good is not None:
            what, which = f"has no checkpoint after step {self._good}", "the last"
        if self._failed == 1:
            return f"{what}: the save of step {self._last} failed: {self._why}"
        return f"{what}: {which} {self._failed} saves failed, the last one of step {self._last}: {self._why}"


class Checkpoints:
    """The checkpoints of one run, as one of its ranks sees them."""

    def __init__(
        self, where: str, owner: Owner, keep: Keep, tell: Tell, patience: Optional[Patience] = None
    ) -> None:
        if keep.mode not in ("min", "max"):
            raise Complaint(f"keep.mode is {keep.mode!r}", "write min or max")
        if keep.last < 1 or keep.best < 0:
            raise Complaint(
                f"keep.last is {keep.last} and keep.best is {keep.best}", "keep at least the last one"
            )
        if keep.best and not keep.metric:
            raise Complaint(f"the best {keep.best} are to be kept, and by no metric", "write metric='loss'")
        self._store: CheckpointStore = locations.store(where)
        self._where = where
        self._owner = owner
        self._keep = keep
        self._tell = tell
        self._patience = patience or Patience()
        self._meeting = Meeting(self._store, owner, self._patience, tell)
        self._writer = Writer(self._store, owner, self._meeting, tell, self._patience)
        self._memory = Memory()
        self._thread: Optional[threading.Thread] = None
        self._ownership: Optional[Ownership] = None
        self._before: Optional[Ownership] = None
        self._is_meant = False
        self._division = ""
        self._saves = Saves()
        self.on_saved: Callable[[int], None] = lambda step: None
        """Called in the background, by every rank, with the step of each checkpoint that is complete."""

    @property
    def lost(self) -> str:
        """What rank 0 could not save, as a sentence without its subject; empty if its work is on disk."""
        return self._saves.lost if self._owner.rank == 0 else ""

    @property
    def is_meant(self) -> bool:
        """Whether the script has asked for what is there."""
        return self._is_meant

    def check(self, parts: Mapping[str, Any]) -> None:
        """Raises now what the first save would raise much later, when hours of work may depend on it."""
        # What has no shape yet gets one in time.
        with contextlib.suppress(Shapeless):
            state_parts.capture(parts, {}, self._owner.rank)
        try:
            if self._owner.rank == 0 and self._ownership is None:
                self._take()
        except OSError as error:
            self._tell(
                f"checkpoints cannot be written now: {error.strerror or error}: {self._where}; "
                "training goes on, and each save tries again"
            )

    def save(
        self, step: int, parts: Mapping[str, Any], own: Mapping[str, Any], metrics: Mapping[str, float]
    ) -> None:
        """Saves the state of a step; every rank calls it. Returns once the state is copied.

        Raises Complaint, before anything is written, for what cannot be saved, for another run's folder, and
        if an earlier save has found that the ranks do not train the same.
        """
        if self._division:
            raise Passing(self._division, "restart all ranks")
        captured = state_parts.capture(parts, own, self._owner.rank)
        if self._owner.rank == 0:
            try:
                if self._ownership is not None and self._ownership.is_replaced():
                    self._not_saved(step, LOST)
                    return
                if self._ownership is None or not self._ownership.is_held():
                    self._take()
            except OSError as error:
                self._refused(step, error, 0)
                return
        # The copy goes into the memory that the save before it is written from.
        self.wait()
        load = self._copied(step, captured, metrics)
        # Not a daemon: an interpreter that ends finishes what it has begun to save.
        self._thread = threading.Thread(target=self._write, args=(load,), name="bireme-checkpoint")
        self._thread.start()

    def restore(self, parts: Mapping[str, Any], step: Optional[int] = None) -> Optional[Restored]:
        """Puts the newest good checkpoint, or that of a step, into the parts; None if there is none.

        Without parts, everything that was saved comes back in `values`.
        """
        return self._restore(self._store, parts, step)

    def restore_from(
        self, where: str, parts: Mapping[str, Any], step: Optional[int] = None
    ) -> Optional[Restored]:
        """The same with checkpoints of another place, where nothing is ever written."""
        return self._restore(locations.store(where), parts, step)

    def _restore(
        self, shelf: CheckpointStore, parts: Mapping[str, Any], step: Optional[int]
    ) -> Optional[Restored]:
        self.wait()
        self._is_meant = True
        gang = consensus.gang(self._owner)
        try:
            with Chooser(shelf, self._owner, gang, self._meeting, self._tell).chosen(step) as opened:
                if opened is None:
                    return None
                found = selection.restored(shelf, opened, parts)
                self._saves.worked(found.step)
                return found
        except OSError as error:
            # To begin anew because the place cannot be reached just now would throw the work away.
            raise Passing(
                f"the checkpoints in {shelf.where} cannot be read: {error.strerror or error}",
                "restart when they can, or choose another place to begin anew",
            ) from error

    def wait(self) -> None:
        """Waits until what was saved is on disk."""
        if self._thread is not None:
            self._writer.hurry()
            self._thread.join()
            self._thread = None

    def close(self, has_failed: bool = False) -> None:
        """Waits, and gives the folder free. After a failure it waits for no rank that does nothing."""
        if has_failed:
            self._writer.fail()
        self.wait()
        if self._ownership is not None:
            self._ownership.release()
            self._ownership = None

    def _take(self) -> None:
        if self._ownership is not None:
            self._ownership.release()
            self._before, self._ownership = self._ownership, None
        patience, session = self._patience, self._before.left() if self._before else ""
        claim = OwnershipClaim(self._owner, self._is_meant, patience.heartbeat, patience.silence, session)
        try:
            self._ownership = locations.take(self._store, claim, self._generation, self._tell)
        except Complaint:
            self._before = None  # it is another's now
            raise
        if self._is_meant or self._before is not None:
            return
        good, _ = self._own(self._ownership.generation)
        if good:
            # A script may have forgotten to ask for what is there.
            newest = max(good, key=lambda name: good[name].serial)
            self._tell(
                f"{newest} of this run is there, and the script begins anew, because it never calls "
                "run.restore; to continue: start = run.restore(model=model, ...)"
            )

    def _generation(self) -> int:
        """The highest generation that the checkpoints tell of, should the mark have been lost."""
        both = checkpoint_reader.newest_first(self._store.snapshot())
        found = (checkpoint_format.generation(head.serial) for _, head in both if head is not None)
        return max((number for number in found if number < MOST_OWNERS), default=0)

    def _copied(self, step: int, captured: state_parts.Captured, metrics: Mapping[str, float]) -> Load:
        taken = captured.taken
        offsets, size = checkpoint_format.offsets([array.size for array in taken])
        buffer = self._memory.of(size, arrays.buffer_for(taken))
        copied = arrays.copy(taken, offsets, buffer)
        described = tuple(
            Array(array.kind, array.dtype, array.shape, at, array.size) for array, at in zip(taken, offsets)
        )
        numbers = {name: float(value) for name, value in metrics.items()}
        return Load(
            step,
            numbers,
            captured.parts,
            captured.own,
            described,
            captured.chunks,
            captured.is_sharded,
            size,
            buffer,
            copied,
        )

    def _write(self, load: Load) -> None:
        try:
            if self._owner.rank != 0:
                if self._writer.follow(load):
                    self.on_saved(load.step)
                return
            assert self._ownership is not None
            self._lead(load, self._ownership)
            self._saves.worked(load.step)
            self.on_saved(load.step)
            # Only now: until the new checkpoint is there, the older ones are all there is.
            self._retain(self._ownership.generation)
        except OSError as error:
            if self._ownership is not None and self._is_lost(self._ownership):
                self._not_saved(load.step, LOST)
            else:
                self._refused(load.step, error, load.size)
        except GivenUp as error:
            self._not_saved(load.step, str(error))
        except Divided as error:
            self._division = str(error)
            self._tell(f"step {load.step} was not saved: {error}; the next save ends this rank")
        except Exception as error:  # of a thread, which nothing else would see
            self._not_saved(load.step, f"{type(error).__name__}: {error}")

    def _lead(self, load: Load, ownership: Ownership) -> None:
        """Writes a checkpoint, if need be in the place of the oldest one that is not needed most."""
        while True:
            try:
                self._writer.lead(load, ownership)
                return
            except (OSError, OtherRankHasNoRoom) as error:
                is_full = isinstance(error, OtherRankHasNoRoom) or error.errno in FULL
                if not is_full or not self._made_room(load.size, ownership):
                    raise

    def _made_room(self, size: int, ownership: Ownership) -> bool:
        """Removes one checkpoint of this run for a newer one, if that helps; never the last good one."""
        if self._is_lost(ownership):
            return False
        good, _ = self._own(ownership.generation)
        # Of all ranks, as far as it is known from before.
        needed = max([size, *(head.size for head in good.values())])
        free = 0
        with contextlib.suppress(OSError):
            free = shutil.disk_usage(self._where).free
        for name in checkpoint_retention.spare(good, self._keep, needed - free):
            with contextlib.suppress(OSError):
                if self._store.remove(name, self._owner):
                    self._tell(
                        f"checkpoint {name} was removed early: there is no room for a newer one beside it"
                    )
                    return True
        return False

    def _refused(self, step: int, error: OSError, size: int) -> None:
        room = ""
        if error.errno in FULL and size:
            free = 0
            with contextlib.suppress(OSError):
                free = shutil.disk_usage(self._where).free
            room = f" ({size / 1e6:.3g} MB are needed, {free / 1e6:.3g} MB are free)"
        why = f"{error.strerror or error}: {self._where}{room}"
        self._saves.failed(step, why)
        goes_on = "training goes on, and the next save, if there is one, tries again"
        self._tell(f"STEP {step} WAS NOT SAVED: {why}; {goes_on}")

    def _not_saved(self, step: int, why: str) -> None:
        self._saves.failed(step, why)
        self._tell(f"step {step} was not saved: {why}; training goes on")

    def _is_lost(self, ownership: Ownership) -> bool:
        """Whether what has failed did so because the new owner has cleared it away."""
        with contextlib.suppress(OSError):
            ownership.confirm(self._meeting.origin)
        return ownership.lost_to is not None

    def _retain(self, generation: int) -> None:
        """Removes what is not wanted any more, of this run alone and not of a later owner of the place."""
        for name in checkpoint_retention.unwanted(*self._own(generation), self._keep):
            try:
                self._store.remove(name, self._owner)
            except OSError as error:
                self._tell(f"checkpoint {name} cannot be removed: {error.strerror}")

    def _own(self, generation: int) -> Tuple[Dict[str, CheckpointHead], Dict[str, int]]:
        """The checkpoints of this run, and the steps of its torn ones."""
        good, torn = {}, {}
        for found, head in checkpoint_reader.newest_first(self._store.snapshot()):
            if found.run != self._owner.run:
                continue
            if head is not None:
                if checkpoint_format.generation(head.serial) <= generation:
                    good[found.name] = head
            elif found.is_torn:
                torn[found.name] = found.step
        return good, torn


def listed(where: str) -> Tuple[FoundCheckpoint, ...]:
    """The checkpoints that are there, oldest first, judged by their heads and sizes."""
    return tuple(
        found for found, _ in reversed(checkpoint_reader.newest_first(locations.store(where).snapshot()))
    )


def verified(where: str) -> Tuple[FoundCheckpoint, ...]:
    """The same, with every checksum verified."""
    shelf = locations.store(where)
    answer = []
    for found, head in reversed(checkpoint_reader.newest_first(shelf.snapshot())):
        why = found.why_not
        try:
            for rank in head.ranks if head is not None else ():
                assert head is not None
                checkpoint_reader.verify(
                    shelf, found.name, checkpoint_reader.sheet(shelf, found.name, head, rank)
                )
        except (Torn, Unreadable) as error:
            why = str(error)
        answer.append(found._replace(is_good=not why, why_not=why))
    return tuple(answer)
