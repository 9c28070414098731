"""Feeds one reader with hostile inputs, and holds it to what it promises."""

from __future__ import annotations

import itertools
import os
import resource
import sys
import tempfile
import threading
import time
import traceback
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.fuzz import mutating
from tests.fuzz.mutating import Encode, Tree

MOST_SECONDS = 20.0
"""CPU time for one input, measured memory included; it should be some milliseconds."""
MOST_MEMORY = 64 << 20
"""Bytes that reading one input may take beside what is in proportion to it."""
MOST_TIMES = 40
"""How many times its own size an input may take: a tree of Python objects is far larger than its text."""
MOST_GROWTH = 1 << 29
"""Bytes by which the process may grow over all inputs."""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGING = frozenset(
    (
        "os.remove",
        "os.rename",
        "os.mkdir",
        "os.rmdir",
        "os.symlink",
        "os.link",
        "os.truncate",
        "os.chmod",
        "shutil.rmtree",
    )
)
_STARTING = frozenset(
    ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect", "os.kill")
)


class Target(NamedTuple):
    """A reader, what it is made for, and what it may raise."""

    name: str
    samples: tuple[bytes, ...]
    """Written by the product's own writers."""
    read: Callable[[bytes], object]
    allowed: tuple[type[Exception], ...] = ()
    trees: tuple[Tree, ...] = ()
    """The samples as JSON trees, where they are such: a field of another type gets past a parser."""
    encode: Encode = mutating.plain_json
    corpus: tuple[bytes, ...] = ()
    """Inputs that once did harm."""


class Finding(NamedTuple):
    """An input that did harm, and how."""

    data: bytes
    harm: str

    def __str__(self) -> str:
        shown = repr(self.data) if len(self.data) < 2000 else f"{self.data[:1000]!r}... of {len(self.data)}"
        return f"{self.harm}\n  input: {shown}"


class Result(NamedTuple):
    inputs: int
    refused: int
    seconds: float
    findings: tuple[Finding, ...]


def hunt(target: Target, seed: str, count: int, folder: Path, *, traced: int) -> Result:
    """Feeds samples, corpus and so many hostile inputs; each kind of harm is reported once.

    The memory of the first `traced` inputs is measured, which takes several times as long.
    """
    made = mutating.inputs(f"{target.name} {seed}", target.samples, target.trees, target.encode)
    every = itertools.chain(target.samples, target.corpus, itertools.islice(made, count))
    found: dict[str, Finding] = {}
    begun, before, refused, fed = time.monotonic(), _resident(), 0, 0
    with _guarded(folder) as written:
        for data in every:
            fed += 1
            harm, was_refused = _measured(target, data) if fed <= traced else _fed(target, data)
            refused += was_refused
            if written:
                harm = f"touches {written[0]}"
                written.clear()
            if harm:
                found.setdefault(harm.partition(": ")[0], Finding(data, harm))
    if _resident() - before > MOST_GROWTH:
        found["memory"] = Finding(b"", f"the process grew by {_resident() - before} bytes")
    return Result(fed, refused, time.monotonic() - begun, tuple(found.values()))


def _measured(target: Target, data: bytes) -> tuple[str, bool]:
    tracemalloc.start()
    try:
        harm, was_refused = _fed(target, data)
        grown = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    if not harm and grown > MOST_MEMORY + MOST_TIMES * len(data):
        harm = f"takes {grown >> 20} MiB"
    return harm, was_refused


def _fed(target: Target, data: bytes) -> tuple[str, bool]:
    begun = time.process_time()
    was_refused = False
    try:
        target.read(data)
    except target.allowed:
        was_refused = True
    except Exception as error:  # whatever else a reader raises is what is looked for
        return _told(error), False
    taken = time.process_time() - begun
    return (f"takes {taken:.0f} s" if taken > MOST_SECONDS else ""), was_refused


def _told(error: BaseException) -> str:
    """The error and the place in the product's code that let it pass."""
    places = [f"{one.filename}:{one.lineno}" for one in traceback.extract_tb(error.__traceback__)]
    ours = [place for place in places if "/bireme/" in place and "/tests/" not in place]
    return f"{type(error).__name__} at {(ours or places)[-1]}: {str(error)[:300]}"


def _resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


_folder: str | None = None
_reader = 0
"""The thread that reads: what others of this process write meanwhile is not its doing."""
_touched: list[str] = []
_is_hooked = False


@contextmanager
def _guarded(folder: Path) -> Iterator[list[str]]:
    """Notes every write, removal, connection and started process outside of a folder."""
    global _folder, _reader, _is_hooked
    if not _is_hooked:
        sys.addaudithook(_heard)  # it cannot be removed again
        _is_hooked = True
    _touched.clear()
    tempfile.gettempdir()  # the first time, it writes to find out
    _folder, _reader = str(folder), threading.get_ident()
    # A module that is imported for the first time is compiled, and that is written beside it.
    writes_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield _touched
    finally:
        _folder, sys.dont_write_bytecode = None, writes_bytecode


def _heard(event: str, arguments: tuple[Any, ...]) -> None:  # Any: each event has its own
    if _folder is None or threading.get_ident() != _reader:
        return
    if event in _STARTING:
        _touched.append(f"{event} {arguments!r}"[:300])
    elif event in _CHANGING or (
        event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING
    ):
        for path in arguments[: 2 if event == "os.rename" else 1]:
            if isinstance(path, (str, bytes)) and not _is_inside(os.fsdecode(path), _folder):
                _touched.append(f"{event} {path!r}"[:300])


def _is_inside(path: str, folder: str) -> bool:
    whole = os.path.realpath(path)
    temporary = tempfile.gettempdir()  # where keys go to be loaded, each in a file that is ours
    if whole == temporary or whole.startswith(os.path.join(temporary, "bireme-")):
        return True
    return whole == os.devnull or os.path.commonpath((whole, os.path.realpath(folder))) == os.path.realpath(
        folder
    )
