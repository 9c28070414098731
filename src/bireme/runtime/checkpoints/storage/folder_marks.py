"""The mark of a folder: `owner-000007.json`, of which the highest number counts.

A new owner creates the next number, which only one process can, also where there are no locks; no process
writes the file of another. Where there are locks, rank 0 holds one on `owner.lock` for its life: it tells at
once what watching a mark tells after a while. The lock is one of the process (lockf), not of the open file
(flock), because a data loader's worker would inherit that and outlive its rank.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import time
from dataclasses import replace
from typing import Callable, Iterator, List, Optional, Tuple

from ..values import Owner
from . import owner_marks, ownership
from .owner_marks import Malformed, OwnerMark
from .ownership import Overtaken, Ownership, OwnershipClaim, SeenMark, Tell

PATIENCE = 10.0
_NAME = re.compile(r"owner-(\d{6,13})\.json")
_LEGACY = "owner.json"
_UNLOCKABLE = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
_UNLINKABLE = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES)


class FolderMarks:
    """The marks of a folder."""

    def __init__(self, where: str) -> None:
        self.where = where

    def read(self) -> Optional[SeenMark]:
        failure: Exception = Malformed(self.where)
        for _ in range(20):
            numbered = self._numbered()
            if not numbered:
                return None
            path = os.path.join(self.where, numbered[-1][1])
            try:
                return self._read(numbered[-1][1])
            except FileNotFoundError:
                # There is a newer one, or none at all; or else it is a link that points nowhere.
                failure = OSError(errno.ESTALE, f"{path} is listed, and cannot be opened")
            except Malformed:
                failure = Malformed(owner_marks.damaged(path))  # or in the middle of being written
            time.sleep(0.05)
        raise failure

    def take(self, mark: OwnerMark, over: Optional[SeenMark]) -> SeenMark:
        os.makedirs(self.where, exist_ok=True)
        found = self.read()
        if (found and found.tag) != (over and over.tag):
            raise Overtaken(found.mark if found else None)
        name = _name(mark)
        with self._partial(owner_marks.write(mark)) as partial:
            self._create(partial, name, mark)
        found = self.read()
        if found is None or found.mark.session != mark.session:
            # This process was so slow that others came and went in the meantime.
            self._remove(name)
            raise Overtaken(found.mark if found else None)
        for number, other in self._numbered():
            if number < mark.generation:
                self._remove(other)
        if over is not None and over.mark.generation == 0:
            self._remove(_LEGACY)
        return found

    def renew(self, mark: OwnerMark) -> SeenMark:
        name = _name(mark)
        try:
            before = self._read(name).mark
            if replace(before, beat=mark.beat) == mark:
                os.utime(os.path.join(self.where, name))  # works on a full disk, too
            else:
                with self._partial(owner_marks.write(mark)) as partial:
                    os.replace(partial, os.path.join(self.where, name))
        except FileNotFoundError:
            found = self.read()
            raise Overtaken(found.mark if found else None) from None
        # A network's file system may have kept an older list, but not beyond a change of our own.
        with contextlib.suppress(OSError), self._partial(b""):
            pass
        found = self.read()
        if found is None or found.mark.session != mark.session:
            self._remove(name)
            raise Overtaken(found.mark if found else None)
        return found

    def is_there(self, mark: OwnerMark) -> bool:
        return os.path.lexists(os.path.join(self.where, _name(mark)))

    def age(self, seen: SeenMark) -> float:
        return max(0.0, self.now() - seen.modified)

    def now(self) -> float:
        """The time by the clock of the place."""
        with self._partial(b"") as partial:
            return os.stat(partial).st_mtime

    def _numbered(self) -> List[Tuple[int, str]]:
        try:
            names = os.listdir(self.where)
        except FileNotFoundError:
            return []
        found = [(int(match.group(1)), match.group()) for match in map(_NAME.fullmatch, names) if match]
        return sorted(found) or [(0, name) for name in names if name == _LEGACY]

    def _read(self, name: str) -> SeenMark:
        with open(os.path.join(self.where, name), "rb") as opened:
            text = opened.read(owner_marks.LIMIT + 1)
            modified = os.fstat(opened.fileno()).st_mtime
        mark = owner_marks.read(text)
        if name != _LEGACY and _name(mark) != name:
            raise Malformed(f"says it is {_name(mark)}")
        return SeenMark(mark, f"{name} {mark.session} {mark.beat} {modified}", modified)

    def _create(self, partial: str, name: str, mark: OwnerMark) -> None:
        """Gives the file its name, unless something has it already."""
        path = os.path.join(self.where, name)
        try:
            os.link(partial, path)
        except FileExistsError:
            # The answer to a request that was sent twice, if it is ours.
            found = self.read()
            if found is None or found.mark.session != mark.session:
                raise Overtaken(found.mark if found else None) from None
        except OSError as error:
            if error.errno not in _UNLINKABLE:
                raise
            self._create_exclusively(path, owner_marks.write(mark))

    def _create_exclusively(self, path: str, text: bytes) -> None:
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            found = self.read()
            raise Overtaken(found.mark if found else None) from None
        with open(handle, "wb") as opened:
            opened.write(text)

    @contextlib.contextmanager
    def _partial(self, text: bytes) -> Iterator[str]:
        """A file of no importance, until it gets another name."""
        path = os.path.join(self.where, f".owner-{os.urandom(8).hex()}.partial")
        try:
            with open(path, "xb") as opened:
                opened.write(text)
                opened.flush()
                if text:
                    # A machine that loses its power must not leave an empty mark, which none may replace.
                    os.fsync(opened.fileno())
            yield path
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)

    def _remove(self, name: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self.where, name))


class Lock:
    """A file to be locked, until it is closed."""

    def __init__(self, path: str) -> None:
        self.handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self.is_closed = False

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            os.close(self.handle)


def take(where: str, claim: OwnershipClaim, least: Callable[[], int], tell: Tell) -> Ownership:
    """Takes the folder for this run; raises Complaint if it is another's, OSError if it cannot be written."""
    os.makedirs(where, exist_ok=True)
    of = FolderMarks(where)
    lock = Lock(os.path.join(where, "owner.lock"))
    try:
        if not _is_locked(of, lock.handle, claim.owner):
            lock.close()
        return ownership.take(of, claim, least, tell, None if lock.is_closed else lock)
    except BaseException:
        lock.close()
        raise


def _is_locked(of: FolderMarks, handle: int, owner: Owner) -> bool:
    """Whether the lock was had; Complaint if another has it. False where it is of no use.

    That is where there are no locks, and where an earlier attempt, which is cut off, does not let go of it.
    """
    limit = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError as error:
            if error.errno in _UNLOCKABLE:
                return False
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
        try:
            seen = of.read()
        except Malformed:
            seen = None
        mark = seen.mark if seen else None
        is_same = mark is not None and mark.run == owner.run
        if (mark is None or is_same) and time.monotonic() < limit:
            time.sleep(0.05)  # the process before us may be about to end
        elif mark is None or owner_marks.is_earlier(mark, owner):
            return False
        else:
            raise ownership.refusal(of.where, mark, owner)


def _name(mark: OwnerMark) -> str:
    return f"owner-{mark.generation:06d}.json"
