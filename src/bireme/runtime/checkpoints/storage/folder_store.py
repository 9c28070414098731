"""Keeps checkpoints in a folder: staged under a hidden name, and there at once by one rename."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
from typing import Any, Dict, Iterable, Iterator, List, Optional

from ..values import Owner, Torn, Unreadable
from . import checkpoint_format, checkpoint_reader, owner_marks
from .folder_marks import FolderMarks

# Whose it is, which attempt's, which process's, which step, and a nonce for the same step saved twice.
_STAGING = re.compile(r"\.staging-([0-9a-f]{16})-(\d{1,18})-([0-9a-f]{1,64})-(\d{1,18})-([0-9a-f]{1,64})")
_TRASH = re.compile(r"\.trash-([0-9a-f]{16})-[0-9a-f]{1,64}")
_CHOICE = re.compile(r"\.choice-([0-9a-f]{16})-(\d{1,18})-([0-9a-f]{1,64})-\d{1,18}")
# What an earlier Bireme, or a process that was killed, may have left. It does not say whose it is.
_LEFT = re.compile(
    r"\.staging-\d{1,18}-\d{1,18}-[0-9a-f]{1,64}|\.trash-[0-9a-f]{8}|\.owner-[0-9a-f]{16}\.partial"
)
_DAY = 24 * 3600.0
_SMALL = 64 << 10
"""The most bytes of what processes tell each other."""


class FolderStore:
    """Checkpoints in a folder that all ranks share."""

    pause = 0.002
    longest_pause = 0.1

    def __init__(self, where: str) -> None:
        self.where = os.path.abspath(where)

    def names(self) -> List[str]:
        """The names of all checkpoints, whole or torn, in no order."""
        return [name for name in self._entries() if checkpoint_format.step_of(name) is not None]

    def read(self, name: str, file: str) -> bytes:
        with _as_torn(file), open(os.path.join(self.where, name, file), "rb") as opened:
            return opened.read()

    def size(self, name: str, file: str) -> int:
        with _as_torn(file):
            return os.stat(os.path.join(self.where, name, file)).st_size

    def open(self, name: str, file: str) -> Any:
        """The bytes of a file, to be read with `seek` and `readinto`."""
        with _as_torn(file):
            return open(os.path.join(self.where, name, file), "rb", buffering=0)

    @contextlib.contextmanager
    def hold(self, name: str) -> Iterator[None]:
        """Keeps a checkpoint from being removed while it is read."""
        with contextlib.ExitStack() as stack:
            # Without a lock, the checksums still tell if it goes away meanwhile.
            with contextlib.suppress(OSError):
                opened = stack.enter_context(
                    open(os.path.join(self.where, name, checkpoint_format.HEAD), "rb")
                )
                fcntl.flock(opened, fcntl.LOCK_SH)
            yield

    def snapshot(self) -> FolderStore:
        return self

    def marks(self) -> FolderMarks:
        return FolderMarks(self.where)

    def is_writable(self) -> bool:
        return os.access(self.where, os.W_OK | os.X_OK)

    def remove(self, name: str, owner: Owner) -> bool:
        """Removes a checkpoint of this run, all at once for every reader; False while it is read."""
        path = os.path.join(self.where, name)
        with contextlib.ExitStack() as stack:
            try:
                opened = stack.enter_context(open(os.path.join(path, checkpoint_format.HEAD), "rb"))
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            except OSError:
                pass  # torn, or a place without locks
            _discard(path, owner)
        return True

    def clear(self, owner: Owner, session: str) -> None:
        """Clears what dead processes of this run left: only its owner may."""
        mine = owner_marks.key(owner.run)
        for name in self._entries():
            path = os.path.join(self.where, name)
            staged, trash, chosen = (pattern.fullmatch(name) for pattern in (_STAGING, _TRASH, _CHOICE))
            with contextlib.suppress(OSError):
                if trash and trash.group(1) == mine:
                    shutil.rmtree(path, ignore_errors=True)
                elif staged and staged.group(3) != session and owner_marks.is_past(staged, owner):
                    _discard(path, owner)
                elif chosen and owner_marks.is_outdated(chosen, owner):
                    os.unlink(path)
        self._clear_left(owner)

    def begin(self, owner: Owner, session: str, step: int, nonce: str) -> Staging:
        """Makes the place where the ranks meet to write a step, and clears what this process left before."""
        os.makedirs(self.where, exist_ok=True)
        for name in self._entries():
            match = _STAGING.fullmatch(name)
            if match and match.group(3) == session:
                with contextlib.suppress(OSError):
                    _discard(os.path.join(self.where, name), owner)
        name = f".staging-{owner_marks.key(owner.run)}-{owner.attempt}-{session}-{step}-{nonce}"
        staging = Staging(self.where, name, owner, nonce)
        os.mkdir(staging.path)
        return staging

    def find(self, owner: Owner, session: str, step: int) -> Optional[Staging]:
        """Where rank 0 has begun to write this step."""
        for name in self._entries():
            match = _STAGING.fullmatch(name)
            if match and (match.group(3), int(match.group(4))) == (session, step):
                return Staging(self.where, name, owner, match.group(5))
        return None

    def note(self, name: str, text: bytes) -> None:
        """Writes down something small for other ranks."""
        os.makedirs(self.where, exist_ok=True)
        partial = os.path.join(self.where, f"{name}.partial")
        with open(partial, "wb") as opened:
            opened.write(text)
        os.replace(partial, os.path.join(self.where, name))

    def noted(self, name: str) -> Optional[bytes]:
        try:
            with open(os.path.join(self.where, name), "rb") as opened:
                return opened.read(_SMALL)
        except FileNotFoundError:
            return None

    def unnote(self, prefix: str, but: str = "") -> None:
        """Removes what was noted under names that begin so."""
        for name in self._entries():
            if name.startswith(prefix) and name != but:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(self.where, name))

    def _clear_left(self, owner: Owner) -> None:
        """Clears what no process has changed for a day, by the clock of the place."""
        left = [os.path.join(self.where, name) for name in self._entries() if _LEFT.fullmatch(name)]
        with contextlib.suppress(OSError):
            now = self.marks().now() if left else 0.0
            for path in left:
                with contextlib.suppress(OSError):
                    if now - os.lstat(path).st_mtime <= _DAY:
                        continue
                    if path.endswith(".partial"):
                        os.unlink(path)
                    else:
                        _discard(path, owner)

    def _entries(self) -> List[str]:
        try:
            return os.listdir(self.where)
        except (FileNotFoundError, NotADirectoryError):
            return []


class Staging:
    """A checkpoint in the making."""

    def __init__(self, where: str, name: str, owner: Owner, nonce: str) -> None:
        self.where = where
        self.path = os.path.join(where, name)
        self.nonce = nonce
        self._owner = owner
        self._step = int(name.split("-")[4])

    def is_there(self) -> bool:
        return os.path.isdir(self.path)

    def was_committed(self) -> bool:
        """Whether it has become a checkpoint."""
        folder = FolderStore(self.where)
        for name in folder.names():
            if checkpoint_format.step_of(name) == self._step:
                with contextlib.suppress(Torn, Unreadable):
                    if checkpoint_reader.stated(folder, name).nonce == self.nonce:
                        return True
        return False

    def write(self, file: str, blocks: Iterable[Any]) -> None:
        """Writes a file so that it is on disk when this returns."""
        path = os.path.join(self.path, file)
        with open(path, "wb", buffering=0) as opened:
            for block in blocks:
                view = memoryview(block)
                while len(view):
                    view = view[opened.write(view) :]
            os.fsync(opened.fileno())

    def sign(self, file: str, text: bytes) -> None:
        """Writes a small file that is there whole, or not at all."""
        self.write(file + ".partial", [text])
        os.rename(os.path.join(self.path, file + ".partial"), os.path.join(self.path, file))

    def signed(self) -> Dict[str, int]:
        """The files that are there, and their sizes."""
        files = {}
        for name in os.listdir(self.path):
            # Another rank may just have given its file the final name.
            with contextlib.suppress(FileNotFoundError):
                files[name] = os.stat(os.path.join(self.path, name)).st_size
        return files

    def read(self, file: str) -> bytes:
        with open(os.path.join(self.path, file), "rb") as opened:
            return opened.read()

    def commit(self, step: int, serial: int, head: bytes) -> str:
        """Makes it a checkpoint; answers its name."""
        self.write(checkpoint_format.HEAD, [head])
        _sync(self.path)
        name = checkpoint_format.name_of(step)
        if os.path.lexists(os.path.join(self.where, name)):
            name = checkpoint_format.name_of(step, serial)
        try:
            os.rename(self.path, os.path.join(self.where, name))
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            # Another process has saved this step in the meantime.
            name = checkpoint_format.name_of(step, serial)
            os.rename(self.path, os.path.join(self.where, name))
        _sync(self.where)
        return name

    def abandon(self) -> None:
        with contextlib.suppress(OSError):
            _discard(self.path, self._owner)


def _discard(path: str, owner: Owner) -> None:
    """Removes a folder, all at once for every process that reads it or writes into it."""
    trash = os.path.join(os.path.dirname(path), f".trash-{owner_marks.key(owner.run)}-{os.urandom(4).hex()}")
    os.rename(path, trash)
    shutil.rmtree(trash, ignore_errors=True)


def _sync(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _as_torn(file: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise Torn(f"{file} is missing") from None
    except OSError as error:
        raise Unreadable(f"{file} cannot be read: {error.strerror}") from error
