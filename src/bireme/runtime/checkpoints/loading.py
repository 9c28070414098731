"""Reads a checkpoint outside of a run, on any machine and whatever number of ranks has saved it."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from typing import Any, Dict, List, Optional, Tuple, Union

from ..script import notes
from ..script.complaints import Complaint, Passing
from . import selection
from .consensus import Alone
from .storage import checkpoint_format, checkpoint_reader, locations
from .storage.checkpoint_format import CheckpointHead
from .storage.checkpoint_reader import Shelf
from .storage.folder_store import FolderStore
from .values import FoundCheckpoint, Owner, Torn, Unreadable

_AT_STEP = re.compile(r"(.+)@([0-9]{1,18})")


class Loaded(Dict[str, Any]):
    """The parts of a checkpoint by name, on the CPU; what had a `state_dict` is that dict."""

    def __init__(self, parts: Dict[str, Any], head: CheckpointHead, where: str, is_sharded: bool) -> None:
        super().__init__(parts)
        self.step = head.step
        self.metrics = dict(head.metrics)
        self.world_size = head.world_size
        """How many ranks have saved it."""
        self.where = where
        """The folder or the object store that it is in."""
        self.is_sharded = is_sharded
        """Whether ranks had pieces of its tensors, which were put together."""


def load(source: Union[str, os.PathLike[str]]) -> Loaded:
    """Reads a checkpoint and verifies its checksums; nothing in it is run.

    source: a job (`train-abcd`, `train-abcd@1200`), a folder or an object store with checkpoints (of which
    the newest whole one is read, or that of a step: `s3://bucket/prefix@1200`), or one checkpoint's folder.
    """
    shelf, step = _found(os.fspath(source))
    problems: List[str] = []
    steps: List[int] = []
    try:
        for found, head in checkpoint_reader.newest_first(shelf):
            if step not in (None, found.step):
                steps += [found.step] if head is not None else []
                continue
            loaded = _loaded(shelf, found, problems)
            if loaded is not None:
                return loaded
    except OSError as error:
        why = error.strerror or str(error)
        raise Passing(f"the checkpoints in {shelf.where} cannot be read: {why}") from error
    of_step = "" if step is None else f" of step {step}"
    why = f": {problems[0]}" if problems else ""
    there = ", ".join(map(str, sorted(steps)))
    raise Complaint(
        f"there is no good checkpoint{of_step} in {shelf.where}{why}",
        f"the steps that are there: {there}" if there else "",
    )


def _loaded(shelf: Shelf, found: FoundCheckpoint, problems: List[str]) -> Optional[Loaded]:
    why = found.why_not
    with shelf.hold(found.name):
        try:
            if not why:
                opened = selection.found_whole(shelf, found.name, Owner(""), Alone())
                parts = selection.restored(shelf, opened, {}).values
                is_sharded = any(sheet.chunks for sheet in opened.sheets.values())
                return Loaded(parts, opened.head, shelf.where, is_sharded)
        except (Torn, Unreadable) as error:
            why = str(error)
    problems.append(f"{found.name}: {why}")
    with contextlib.suppress(OSError, ValueError):
        print(f"bireme: checkpoint {found.name} is skipped: {why}", file=sys.stderr, flush=True)
    return None


def _found(text: str) -> Tuple[Shelf, Optional[int]]:
    # PLACE@STEP, unless a folder has that very name.
    match = None if os.path.isdir(text) else _AT_STEP.fullmatch(text)
    where, step = (match.group(1), int(match.group(2))) if match else (text, None)
    shelf: Shelf
    if "://" in where:
        parent, _, last = where.rstrip("/").rpartition("/")
        of_name = checkpoint_format.step_of(last)
        if of_name is None:
            return locations.store(where).snapshot(), step
        shelf = locations.store(parent).snapshot()
        # Objects are stored under a name that no other save of the step has, and listed under the plain one.
        return (_Single(shelf, last), step) if last in shelf.names() else (shelf, of_name)
    where = os.path.expanduser(where)
    if os.path.isdir(where):
        if os.path.exists(os.path.join(where, checkpoint_format.HEAD)):
            parent, name = os.path.split(os.path.abspath(where))
            return _Single(FolderStore(parent), name), step
        if not FolderStore(where).names():
            where = notes.checkpoints(where)  # a run's directory, perhaps
        shelf = locations.store(where).snapshot()
        return shelf, step
    if os.sep in where:
        raise Complaint(f"there is no folder {where}", "give a job, a folder, or s3://bucket/prefix")
    return _found(_of_job(text))


def _of_job(text: str) -> str:
    """Where a job keeps its checkpoints, as PLACE or PLACE@STEP: only an installed Bireme knows jobs."""
    # Looked up, not imported: the package knows where Bireme is installed, and says so where it is not.
    package: Any = sys.modules.get("bireme")
    try:
        client = package.Client()
    except (ImportError, AttributeError) as error:
        raise Complaint(
            f"there is no folder {text}, and jobs are known only where Bireme is installed ({error})",
            "give a folder with checkpoints, or s3://bucket/prefix",
        ) from None
    try:
        (where,) = client.origin(text).values()
    except Exception as error:  # one of `bireme.errors`, which is not part of this
        # What the user gave stays wrong; a cluster or a disk may answer at the next try.
        kind = Complaint if getattr(error, "code", "") == "bad-input" else Passing
        raise kind(getattr(error, "what", str(error)), getattr(error, "hint", "")) from error
    return str(where)


class _Single:
    """A single checkpoint of a place, under whatever name it is stored there: it may have been copied."""

    def __init__(self, shelf: Shelf, stored: str) -> None:
        self.where = f"{shelf.where}/{stored}"
        self._shelf, self._stored = shelf, stored

    def names(self) -> List[str]:
        step = checkpoint_format.step_of(self._stored) or 0
        with contextlib.suppress(Torn, Unreadable, ValueError, KeyError, TypeError):
            step = checkpoint_format.read_head(self._shelf.read(self._stored, checkpoint_format.HEAD)).step
        return [checkpoint_format.name_of(step)]

    def read(self, name: str, file: str) -> bytes:
        return self._shelf.read(self._stored, file)

    def size(self, name: str, file: str) -> int:
        return self._shelf.size(self._stored, file)

    def open(self, name: str, file: str) -> Any:
        return self._shelf.open(self._stored, file)

    def hold(self, name: str) -> contextlib.AbstractContextManager[None]:
        return self._shelf.hold(self._stored)
