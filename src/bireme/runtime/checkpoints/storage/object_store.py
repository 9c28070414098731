"""Keeps checkpoints in an object store: under their own name from the start, and there once the head is.

Objects cannot be renamed, so `checkpoint.json` is put last, which is atomic. For as long as a checkpoint is
written or removed, a small object `.staging-...` says so, and whose it is: no other run clears it away.
Requests cost time and money: what is waited for is asked for by its name, and nothing is listed in between.
Endpoint and credentials come from the environment: AWS_ENDPOINT_URL etc.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import itertools
import json
import os
import re
from dataclasses import dataclass
from typing import Any, Dict, Iterable, Iterator, List, Optional

from ...script.complaints import Complaint
from ..values import Owner, Torn, Unreadable
from . import checkpoint_format, checkpoint_reader, owner_marks
from .object_marks import BucketMarks

_STAGING = re.compile(r"\.staging-([0-9a-f]{16})-(\d{1,18})-([0-9a-f]{1,64})")
_CHOICE = re.compile(r"\.choice-([0-9a-f]{16})-(\d{1,18})-([0-9a-f]{1,64})-\d{1,18}")
_SMALL = 64 << 10
"""The most bytes of what processes tell each other."""


@dataclass(frozen=True)
class Looked:
    """A small object, and what the store says of it."""

    data: bytes
    tag: str
    modified: float


class Bucket:
    """Checkpoints under a prefix of a bucket."""

    pause = 0.05
    longest_pause = 1.0

    def __init__(self, where: str) -> None:
        self.where = where
        self._is_unconditional = False
        try:
            self._library: Any = importlib.import_module("obstore")
        except ModuleNotFoundError:
            raise Complaint(
                "obstore is not installed, and it is what reaches object stores", "pip install obstore"
            ) from None
        endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
        options = {"allow_http": True} if endpoint.startswith("http://") else None
        with self._saying():
            self._store: Any = self._library.store.from_url(where, client_options=options)

    def names(self) -> List[str]:
        """The names of all checkpoints. What has no head was never finished, and is none."""
        return _names(self.objects())

    def read(self, name: str, file: str) -> bytes:
        with _as_torn(file):
            return self.get(f"{name}/{file}")

    def size(self, name: str, file: str) -> int:
        with _as_torn(file), self._saying():
            return int(self._library.head(self._store, f"{name}/{file}")["size"])

    def open(self, name: str, file: str) -> Any:
        """The bytes of an object, to be read with `seek` and `readinto`."""
        return _Source(self, f"{name}/{file}", self.size(name, file))

    @contextlib.contextmanager
    def hold(self, name: str) -> Iterator[None]:
        """Nothing can be held here; the checksums tell if it goes away meanwhile."""
        yield

    def snapshot(self) -> Snapshot:
        """The same for reading, with one list for all names and sizes."""
        return Snapshot(self)

    def marks(self) -> BucketMarks:
        return BucketMarks(self)

    def is_writable(self) -> bool:
        return True  # as far as one can tell without writing

    def remove(self, name: str, owner: Owner) -> bool:
        """Removes a checkpoint of this run: its head first, so that it is none from then on."""
        nonce = os.urandom(8).hex()
        making = Making(self, _marker(owner, nonce), name, nonce)
        making.announce(checkpoint_format.step_of(name) or 0)
        self.delete([f"{name}/{checkpoint_format.HEAD}"])
        making.abandon()
        return True

    def clear(self, owner: Owner, session: str) -> None:
        """Clears what dead processes of this run left: only its owner may."""
        for path in self.top():
            staged, chosen = _STAGING.fullmatch(path), _CHOICE.fullmatch(path)
            if staged and staged.group(3) != session and owner_marks.is_past(staged, owner):
                making = self.making(path)
                if making is not None:
                    making.abandon()
            elif chosen and owner_marks.is_outdated(chosen, owner):
                self.delete([path])

    def begin(self, owner: Owner, session: str, step: int, nonce: str) -> Making:
        """Says where the ranks write a step, and clears what this process could not clear before."""
        marker = _marker(owner, session)
        left = self.making(marker)
        if left is not None:
            left.abandon()
        # A name of its own: an earlier attempt that is cut off may be writing the same step.
        making = Making(self, marker, checkpoint_format.name_of(step, int(nonce[:8], 16) + 1), nonce)
        making.announce(step)
        return making

    def find(self, owner: Owner, session: str, step: int) -> Optional[Making]:
        """Where rank 0 has begun to write this step."""
        making = self.making(_marker(owner, session))
        return making if making is not None and checkpoint_format.step_of(making.name) == step else None

    def note(self, name: str, text: bytes) -> None:
        """Writes down something small for other ranks."""
        self.put(name, text)

    def noted(self, name: str) -> Optional[bytes]:
        try:
            return self.look(name, _SMALL).data
        except FileNotFoundError:
            return None

    def unnote(self, prefix: str, but: str = "") -> None:
        """Removes what was noted under names that begin so."""
        self.delete([path for path in self.top() if path.startswith(prefix) and path != but])

    def making(self, marker: str) -> Optional[Making]:
        """What a marker says; None if there is none, or none that makes sense."""
        try:
            content = json.loads(self.look(marker, _SMALL).data)
            name, nonce = content["name"], content["nonce"]
        except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
            return None
        if type(name) is not str or type(nonce) is not str or checkpoint_format.step_of(name) is None:
            return None
        return Making(self, marker, name, nonce)

    def top(self) -> List[str]:
        """The objects under the prefix that are not part of a checkpoint."""
        with self._saying():
            listed = self._library.list_with_delimiter(self._store)
            return [str(entry["path"]) for entry in listed["objects"]]

    def objects(self, under: Optional[str] = None) -> Dict[str, int]:
        """All objects under the prefix, or a part of it, and their sizes."""
        with self._saying():
            listed = itertools.chain.from_iterable(self._library.list(self._store, under))
            return {str(entry["path"]): int(entry["size"]) for entry in listed}

    def get(self, path: str) -> bytes:
        with self._saying():
            return bytes(self._library.get(self._store, path).bytes())

    def look(self, path: str, limit: int) -> Looked:
        """A small object; of a larger one, which another program has put there, no more than the limit."""
        with self._saying():
            got = self._library.get(self._store, path)
            meta = got.meta
            data = b"" if int(meta["size"]) > limit else bytes(got.bytes())
            tag = json.dumps([meta["e_tag"], meta["version"]])
            return Looked(data, tag, float(meta["last_modified"].timestamp()))

    def put_if(self, path: str, data: bytes, tag: Optional[str]) -> bool:
        """Puts an object if what is there is what `look` saw, or if nothing is and `tag` is None."""
        names = ("e_tag", "version")
        known = dict(zip(names, json.loads(tag))) if tag else {}
        mode: Any = {name: value for name, value in known.items() if value} or "create"
        exceptions = self._library.exceptions
        if self._is_unconditional:
            self.put(path, data)
            return True
        with self._saying():
            try:
                self._library.put(self._store, path, data, use_multipart=False, mode=mode)
            except (exceptions.PreconditionError, exceptions.AlreadyExistsError, FileNotFoundError):
                return False
            except (exceptions.NotSupportedError, exceptions.GenericError) as error:
                is_refused = isinstance(error, exceptions.GenericError)
                if is_refused and "501 Not Implemented" not in str(error):
                    raise
                # A store without conditions: what was read a moment ago is all that can be known.
                self._is_unconditional = True
                self._library.put(self._store, path, data, use_multipart=False)
        return True

    def get_range(self, path: str, begin: int, length: int) -> Any:
        with self._saying():
            return self._library.get_range(self._store, path, start=begin, length=length)

    def put(self, path: str, data: Any) -> None:
        with self._saying():
            self._library.put(self._store, path, data, use_multipart=False)

    def put_all(self, path: str, blocks: Iterator[Any]) -> None:
        with self._saying():
            self._library.put(self._store, path, blocks, max_concurrency=4)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            with contextlib.suppress(FileNotFoundError), self._saying():
                self._library.delete(self._store, path)

    @contextlib.contextmanager
    def _saying(self) -> Iterator[None]:
        """What the store answers, as an OSError: for the training it is a disk like any other."""
        try:
            yield
        except FileNotFoundError:
            raise
        except self._library.exceptions.NotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, _first_line(error)) from error
        except self._library.exceptions.BaseError as error:
            raise OSError(errno.EIO, _first_line(error)) from error


class Snapshot:
    """A bucket as it was listed once. What is not in the list is missing."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._sizes = bucket.objects()
        self.where = bucket.where

    def names(self) -> List[str]:
        return _names(self._sizes)

    def size(self, name: str, file: str) -> int:
        size = self._sizes.get(f"{name}/{file}")
        if size is None:
            raise Torn(f"{file} is missing")
        return size

    def read(self, name: str, file: str) -> bytes:
        return self._bucket.read(name, file)

    def open(self, name: str, file: str) -> Any:
        return self._bucket.open(name, file)

    def hold(self, name: str) -> contextlib.AbstractContextManager[None]:
        return self._bucket.hold(name)


class Making:
    """A checkpoint in the making."""

    def __init__(self, bucket: Bucket, marker: str, name: str, nonce: str) -> None:
        self._bucket = bucket
        self._marker = marker
        self.name = self._name = name
        self.nonce = nonce

    def announce(self, step: int) -> None:
        text = json.dumps({"step": step, "name": self._name, "nonce": self.nonce})
        self._bucket.put(self._marker, text.encode("ascii"))

    def is_there(self) -> bool:
        making = self._bucket.making(self._marker)
        return making is not None and making.nonce == self.nonce

    def was_committed(self) -> bool:
        """Whether it has become a checkpoint."""
        try:
            return checkpoint_reader.stated(self._bucket, self._name).nonce == self.nonce
        except (Torn, Unreadable):
            return False

    def write(self, file: str, blocks: Iterable[Any]) -> None:
        path = f"{self._name}/{file}"
        rest = iter(blocks)
        first, second = next(rest, b""), next(rest, None)
        if second is None:
            self._bucket.put(path, bytes(first))
        else:
            self._bucket.put_all(path, (bytes(block) for block in itertools.chain((first, second), rest)))

    def sign(self, file: str, text: bytes) -> None:
        self._bucket.put(f"{self._name}/{file}", text)

    def signed(self) -> Dict[str, int]:
        start = f"{self._name}/"
        return {path[len(start) :]: size for path, size in self._bucket.objects(start).items()}

    def read(self, file: str) -> bytes:
        return self._bucket.get(f"{self._name}/{file}")

    def commit(self, step: int, serial: int, head: bytes) -> str:
        self._bucket.put(f"{self._name}/{checkpoint_format.HEAD}", head)
        self._bucket.delete([self._marker])
        return self._name

    def abandon(self) -> None:
        """Removes what was written, unless it has become a checkpoint after all."""
        with contextlib.suppress(OSError):
            files = self.signed()
            if checkpoint_format.HEAD not in files:
                self._bucket.delete(f"{self._name}/{file}" for file in files)
            self._bucket.delete([self._marker])


def _marker(owner: Owner, session: str) -> str:
    return f".staging-{owner_marks.key(owner.run)}-{owner.attempt}-{session}"


def _names(paths: Iterable[str]) -> List[str]:
    found = (path.partition("/") for path in paths)
    return [
        folder
        for folder, _, file in found
        if file == checkpoint_format.HEAD and checkpoint_format.step_of(folder) is not None
    ]


class _Source:
    def __init__(self, bucket: Bucket, path: str, size: int) -> None:
        self._bucket = bucket
        self._path = path
        self._size = size
        self._at = 0

    def seek(self, at: int) -> None:
        self._at = at

    def readinto(self, view: memoryview) -> int:
        length = min(len(view), self._size - self._at)
        if length <= 0:
            return 0
        got = memoryview(self._bucket.get_range(self._path, self._at, length))
        view[: len(got)] = got
        self._at += len(got)
        return len(got)

    def close(self) -> None:
        pass


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:300]


@contextlib.contextmanager
def _as_torn(file: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise Torn(f"{file} is missing") from None
    except OSError as error:
        raise Unreadable(f"{file} cannot be read: {error.strerror}") from error
