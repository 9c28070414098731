"""How do checkpoints lie in a folder: staged under a hidden name, and there at once by one rename."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from typing import Any, Dict, Iterable, Iterator, List, Optional

from . import layout
from .values import Torn

_STAGING = re.compile(r"\.staging-(\d+)-(\d+)-([0-9a-f]+)")
_TRASH = ".trash-"


class Folder:
    """Checkpoints in a folder that all ranks share."""

    def __init__(self, where: str) -> None:
        self.where = os.path.abspath(where)

    def names(self) -> List[str]:
        """The names of all checkpoints, whole or torn, in no order."""
        return [name for name in self._entries() if layout.step_of(name) is not None]

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
                opened = stack.enter_context(open(os.path.join(self.where, name, layout.HEAD), "rb"))
                fcntl.flock(opened, fcntl.LOCK_SH)
            yield

    def remove(self, name: str) -> bool:
        """Removes a checkpoint, all at once to whoever looks; False if someone is reading it."""
        path = os.path.join(self.where, name)
        with contextlib.ExitStack() as stack:
            try:
                opened = stack.enter_context(open(os.path.join(path, layout.HEAD), "rb"))
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            except OSError:
                pass  # torn, or a place without locks
            _discard(path)
        return True

    def begin(self, step: int, attempt: int, nonce: str) -> Staging:
        """Makes the place where the ranks meet to write a step, and clears what dead ones left.

        Only rank 0 does, so whatever is staged by this attempt or by an earlier one is left over.
        """
        os.makedirs(self.where, exist_ok=True)
        for name in self._entries():
            match = _STAGING.fullmatch(name)
            if name.startswith(_TRASH) or (match and int(match.group(2)) <= attempt):
                with contextlib.suppress(OSError):
                    _discard(os.path.join(self.where, name))
        staging = Staging(self.where, f".staging-{step}-{attempt}-{nonce}", nonce)
        os.mkdir(staging.path)
        return staging

    def find(self, step: int, attempt: int) -> Optional[Staging]:
        """Where rank 0 has begun to write this step."""
        for name in self._entries():
            match = _STAGING.fullmatch(name)
            if match and (int(match.group(1)), int(match.group(2))) == (step, attempt):
                return Staging(self.where, name, match.group(3))
        return None

    def _entries(self) -> List[str]:
        try:
            return os.listdir(self.where)
        except (FileNotFoundError, NotADirectoryError):
            return []


class Staging:
    """A checkpoint in the making."""

    def __init__(self, where: str, name: str, nonce: str) -> None:
        self.where = where
        self.path = os.path.join(where, name)
        self.nonce = nonce

    def is_there(self) -> bool:
        return os.path.isdir(self.path)

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
        self.write(layout.HEAD, [head])
        _sync(self.path)
        name = layout.name_of(step)
        if os.path.lexists(os.path.join(self.where, name)):
            name = layout.name_of(step, serial)
        os.rename(self.path, os.path.join(self.where, name))
        _sync(self.where)
        return name

    def abandon(self) -> None:
        with contextlib.suppress(OSError):
            _discard(self.path)


def _discard(path: str) -> None:
    """Removes a folder, all at once to whoever looks at it or writes into it."""
    trash = os.path.join(os.path.dirname(path), f"{_TRASH}{os.urandom(4).hex()}")
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
        raise Torn(f"{file} cannot be read: {error.strerror}") from error
