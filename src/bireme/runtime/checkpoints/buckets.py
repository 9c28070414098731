"""How do checkpoints lie in an object store: under their own name from the start, and there once the head is.

Objects cannot be renamed, so `checkpoint.json` is put last, which is atomic. While ranks write, a small
object `.staging-...` says where. Endpoint and credentials come from the environment: AWS_ENDPOINT_URL etc.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import re
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional

from . import arrays, layout
from .owning import Mark, claim
from .values import Owner, Torn

_STAGING = re.compile(r"\.staging-(\d+)-(\d+)-([0-9a-f]+)")
_OWNER = "owner.json"


class Bucket:
    """Checkpoints under a prefix of a bucket."""

    def __init__(self, where: str) -> None:
        self.where = where
        self._library = arrays.library("obstore", "it is what reaches object stores")
        endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
        options = {"allow_http": True} if endpoint.startswith("http://") else None
        with self._saying():
            self._store: Any = self._library.store.from_url(where, client_options=options)

    def names(self) -> List[str]:
        """The names of all checkpoints. What has no head was never finished, and is none."""
        found = (path.split("/") for path in self.objects())
        return [one[0] for one in found if one[1:] == [layout.HEAD] and layout.step_of(one[0]) is not None]

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

    def remove(self, name: str) -> bool:
        """Removes a checkpoint: its head first, so that it is none from then on."""
        paths = [path for path in self.objects() if path.startswith(f"{name}/")]
        self.delete(sorted(paths, key=lambda path: path != f"{name}/{layout.HEAD}"))
        return True

    def begin(self, step: int, attempt: int, nonce: str) -> Making:
        """Says where the ranks write a step, and clears what dead ones left."""
        there = self.objects()
        for path in there:
            match = _STAGING.fullmatch(path)
            if match and int(match.group(2)) <= attempt:
                Making(self, path, self.get(path).decode(), match.group(3)).abandon()
        name = layout.name_of(step)
        if any(path.startswith(f"{name}/") for path in there):
            name = layout.name_of(step, int(nonce[:8], 16) + 1)
        marker = f".staging-{step}-{attempt}-{nonce}"
        self.put(marker, name.encode())
        return Making(self, marker, name, nonce)

    def find(self, step: int, attempt: int) -> Optional[Making]:
        """Where rank 0 has begun to write this step."""
        for path in self.objects():
            match = _STAGING.fullmatch(path)
            if match and (int(match.group(1)), int(match.group(2))) == (step, attempt):
                with contextlib.suppress(FileNotFoundError):
                    return Making(self, path, self.get(path).decode(), match.group(3))
        return None

    def objects(self) -> Dict[str, int]:
        """All objects under the prefix, and their sizes."""
        with self._saying():
            listed = itertools.chain.from_iterable(self._library.list(self._store))
            return {str(one["path"]): int(one["size"]) for one in listed}

    def get(self, path: str) -> bytes:
        with self._saying():
            return bytes(self._library.get(self._store, path).bytes())

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


class Making:
    """A checkpoint in the making."""

    def __init__(self, bucket: Bucket, marker: str, name: str, nonce: str) -> None:
        self._bucket = bucket
        self._marker = marker
        self._name = name
        self.nonce = nonce

    def is_there(self) -> bool:
        return self._marker in self._bucket.objects()

    def write(self, file: str, blocks: Iterable[Any]) -> None:
        path = f"{self._name}/{file}"
        rest = iter(blocks)
        first, second = next(rest, b""), next(rest, None)
        if second is None:
            self._bucket.put(path, bytes(first))
        else:
            self._bucket.put_all(path, (bytes(one) for one in itertools.chain((first, second), rest)))

    def sign(self, file: str, text: bytes) -> None:
        self._bucket.put(f"{self._name}/{file}", text)

    def signed(self) -> Dict[str, int]:
        start = f"{self._name}/"
        return {
            path[len(start) :]: size
            for path, size in self._bucket.objects().items()
            if path.startswith(start)
        }

    def read(self, file: str) -> bytes:
        return self._bucket.get(f"{self._name}/{file}")

    def commit(self, step: int, serial: int, head: bytes) -> str:
        self._bucket.put(f"{self._name}/{layout.HEAD}", head)
        self._bucket.delete([self._marker])
        return self._name

    def abandon(self) -> None:
        """Removes what was written, unless it has become a checkpoint after all."""
        with contextlib.suppress(OSError):
            files = self.signed()
            if layout.HEAD not in files:
                self._bucket.delete(f"{self._name}/{file}" for file in files)
            self._bucket.delete([self._marker])


class Claim:
    """The right to write under a prefix. There are no locks: who was replaced finds out at its commit."""

    def __init__(self, bucket: Bucket, mark: Mark) -> None:
        self._bucket = bucket
        self._mark = mark

    def is_held(self) -> bool:
        """False in a process that was forked."""
        return self._mark.pid == os.getpid()

    def is_lost(self, attempt: int) -> bool:
        return _marked(self._bucket) != self._mark

    def release(self) -> None:
        pass


def take(bucket: Bucket, owner: Owner, is_meant: bool, tell: Callable[[str], None]) -> Claim:
    """Takes the prefix for this run; raises Complaint if it is another's, OSError if it cannot be written."""
    mark = claim(bucket.where, _marked(bucket), owner, is_meant, tell)
    bucket.put(_OWNER, json.dumps(vars(mark)).encode())
    return Claim(bucket, mark)


def _marked(bucket: Bucket) -> Mark:
    try:
        return Mark(**json.loads(bucket.get(_OWNER)))
    except (FileNotFoundError, ValueError, TypeError):
        return Mark()


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
