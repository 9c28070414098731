"""Whose folder is it: two runs must never write checkpoints into one.

`owner.json` names the run; rank 0 holds a lock on `owner.lock` for its life. The lock is one of the process
(lockf), not of the open file (flock), because a data loader's worker would inherit that and outlive its rank.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from dataclasses import dataclass
from typing import Any, Callable, Optional

from ..script.complaints import Complaint
from .values import Owner

PATIENCE = 10.0
_UNLOCKABLE = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


@dataclass(frozen=True)
class Mark:
    """What the folder says about its owner."""

    run: str = ""
    attempt: int = 0
    host: str = ""
    pid: int = 0


class Ownership:
    """The right to write into a folder, which lasts until `release`."""

    def __init__(self, where: str, handle: Optional[int]) -> None:
        self._where = where
        self._handle = handle
        self._process = os.getpid()

    def is_held(self) -> bool:
        """False in a process that was forked, and once somebody has removed the folder."""
        if self._process != os.getpid() or self._handle is None:
            return False
        return os.fstat(self._handle).st_nlink > 0

    def is_lost(self, attempt: int) -> bool:
        """Whether a later attempt has taken the folder over."""
        return read(self._where).attempt > attempt

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def take(where: str, owner: Owner, is_meant: bool, tell: Callable[[str], None]) -> Ownership:
    """Takes the folder for this run; raises Complaint if it is another's, OSError if it cannot be written.

    A folder of another run that has ended is taken over if the script began with restoring from it.
    """
    os.makedirs(where, exist_ok=True)
    handle = os.open(os.path.join(where, "owner.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        _write(where, claim(where, _locked(where, handle, owner), owner, is_meant, tell))
    except BaseException:
        os.close(handle)
        raise
    return Ownership(where, handle)


def claim(where: str, mark: Mark, owner: Owner, is_meant: bool, tell: Callable[[str], None]) -> Mark:
    """The mark that this process may set in place of the one that is there; Complaint if it may not."""
    if mark.run and mark.run != owner.run:
        if not is_meant:
            raise Complaint(
                f"{where} holds the checkpoints of another run, {mark.run}",
                "choose another folder, or call run.restore() first to continue from them",
            )
        tell(f"{where} held the checkpoints of run {mark.run}; from now on it is this run's")
    return Mark(owner.run, owner.attempt, os.uname().nodename, os.getpid())


def read(where: str) -> Mark:
    """What is written about the owner; an empty mark if nothing is."""
    try:
        with open(os.path.join(where, "owner.json"), encoding="utf-8") as opened:
            content: Any = json.load(opened)
        return Mark(str(content["run"]), int(content["attempt"]), str(content["host"]), int(content["pid"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Mark()


def _locked(where: str, handle: int, owner: Owner) -> Mark:
    """The mark as it was when the lock was had; an earlier attempt's lock is not waited for to the end."""
    limit = time.monotonic() + PATIENCE
    while True:
        mark = read(where)
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return read(where)
        except OSError as error:
            if error.errno in _UNLOCKABLE:
                return mark
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
        is_same = mark.run == owner.run
        if is_same and time.monotonic() < limit:
            time.sleep(0.05)  # the process before us may be about to end
        elif is_same and mark.attempt < owner.attempt:
            return mark  # it is cut off, and finds itself replaced when it would commit
        else:
            who = "another process of this run" if is_same else f"run {mark.run}"
            raise Complaint(
                f"{where} is being written by {who} (process {mark.pid} on {mark.host})",
                "give each run a folder of its own, or end the other one",
            )


def _write(where: str, mark: Mark) -> None:
    path = os.path.join(where, "owner.json")
    partial = f"{path}.{os.getpid()}"
    with open(partial, "w", encoding="utf-8") as opened:
        json.dump(vars(mark), opened)
        opened.write("\n")
    os.replace(partial, path)
