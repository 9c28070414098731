"""Reads checkpoints: nothing is handed out before its checksums are verified."""

from __future__ import annotations

import contextlib
import mmap
import zlib
from typing import Any, Iterator, List, Protocol, Tuple

from ..values import FoundCheckpoint, Torn, Unreadable
from . import checkpoint_format
from .checkpoint_format import CheckpointHead, Sheet


class Shelf(Protocol):
    """Where checkpoints can be read: a folder, or a bucket."""

    where: str

    def names(self) -> List[str]: ...

    def read(self, name: str, file: str) -> bytes: ...

    def size(self, name: str, file: str) -> int: ...

    def open(self, name: str, file: str) -> Any: ...

    def hold(self, name: str) -> contextlib.AbstractContextManager[None]: ...


def head(shelf: Shelf, name: str) -> CheckpointHead:
    """The head of a checkpoint whose files all have the size that they should; raises Torn, Unreadable."""
    found = stated(shelf, name)
    _expect_files(shelf, name, found)
    return found


def stated(shelf: Shelf, name: str) -> CheckpointHead:
    """The head of a checkpoint, whatever has become of its other files; raises Torn, Unreadable."""
    with _named(checkpoint_format.HEAD):
        found = checkpoint_format.read_head(shelf.read(name, checkpoint_format.HEAD))
        if found.step != checkpoint_format.step_of(name):
            raise Torn(f"says it is of step {found.step}")
    return found


def _expect_files(shelf: Shelf, name: str, found: CheckpointHead) -> None:
    for rank, signature in found.ranks.items():
        _expect(shelf, name, checkpoint_format.sheet_file(rank), signature.sheet_size)
        _expect(shelf, name, checkpoint_format.data_file(rank), signature.size)


def sheet(shelf: Shelf, name: str, of: CheckpointHead, rank: int) -> Sheet:
    """The sheet of a rank, verified."""
    file = checkpoint_format.sheet_file(rank)
    text = shelf.read(name, file)
    if zlib.crc32(text) != of.ranks[rank].sheet_crc:
        raise Torn(f"{file} has a wrong checksum")
    with _named(file):
        return checkpoint_format.read_sheet(text)


def data(shelf: Shelf, name: str, of: Sheet) -> Any:
    """The bytes of a rank's arrays, verified."""
    buffer = fresh(of.size)
    view = memoryview(buffer)
    for _ in _verified(shelf, name, of, view):
        pass
    return buffer


def fresh(size: int) -> mmap.mmap:
    """Zeroed memory of this process alone."""
    return mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def verify(shelf: Shelf, name: str, of: Sheet) -> None:
    """Verifies a rank's bytes without keeping them."""
    for _ in _verified(shelf, name, of, None):
        pass


def found(shelf: Shelf, name: str) -> Tuple[FoundCheckpoint, CheckpointHead | None]:
    """What can be said of a checkpoint by its head and sizes alone."""
    bad = FoundCheckpoint(name, checkpoint_format.step_of(name) or 0, {}, is_good=False)
    try:
        stands = stated(shelf, name)
        # From here on it is known whose it is, also if it turns out to be torn.
        bad = bad._replace(run=stands.run)
        _expect_files(shelf, name, stands)
    except Torn as torn:
        return bad._replace(why_not=str(torn), is_torn=True), None
    except Unreadable as error:
        return bad._replace(why_not=str(error)), None
    good = FoundCheckpoint(
        name, stands.step, stands.metrics, stands.time, stands.size, stands.world_size, stands.run
    )
    return good, stands


def newest_first(shelf: Shelf) -> List[Tuple[FoundCheckpoint, CheckpointHead | None]]:
    """All checkpoints; torn ones are put where their step belongs."""
    all_found = [found(shelf, name) for name in shelf.names()]
    ordered = sorted(
        (pair for pair in all_found if pair[1]),
        key=lambda pair: pair[1].serial if pair[1] else 0,
        reverse=True,
    )
    for torn in sorted((pair for pair in all_found if not pair[1]), key=lambda pair: pair[0].step):
        at = next((at for at, (good, _) in enumerate(ordered) if good.step <= torn[0].step), len(ordered))
        ordered.insert(at, torn)
    return ordered


def _verified(shelf: Shelf, name: str, of: Sheet, into: Any) -> Iterator[None]:
    file = checkpoint_format.data_file(of.rank)
    if len(of.crcs) != len(checkpoint_format.blocks(of.size, of.block)):
        raise Torn(f"{checkpoint_format.sheet_file(of.rank)} has {len(of.crcs)} checksums")
    spare = None if into is not None else memoryview(bytearray(min(of.block, max(of.size, 1))))
    with contextlib.closing(shelf.open(name, file)) as source:
        for (begin, end), crc in zip(checkpoint_format.blocks(of.size, of.block), of.crcs):
            view = into[begin:end] if spare is None else spare[: end - begin]
            done = 0
            while done < len(view):
                try:
                    got = source.readinto(view[done:])
                except OSError as error:
                    raise Unreadable(f"{file} cannot be read: {error.strerror}") from error
                if not got:
                    raise Torn(f"{file} is cut short at byte {begin}")
                done += got
            if zlib.crc32(view) != crc:
                raise Torn(f"{file} has a wrong checksum between bytes {begin} and {end}")
            yield


def _expect(shelf: Shelf, name: str, file: str, size: int) -> None:
    there = shelf.size(name, file)
    if there != size:
        raise Torn(f"{file} has {there} bytes instead of {size}")


@contextlib.contextmanager
def _named(file: str) -> Iterator[None]:
    try:
        yield
    except Torn as torn:
        text = str(torn)
        raise Torn(text if text.startswith(file) else f"{file} {text}") from None
    except Unreadable as error:
        text = str(error)
        raise Unreadable(text if text.startswith(file) else f"{file} {text}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Unreadable(f"{file} is not understood: {error}") from error
