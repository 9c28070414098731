"""Reads and writes the files of a checkpoint: blocks with checksums, a sheet for each rank, and one head.

step-000000120/
    checkpoint.json   the head: step, time, run, and the checksum of each rank's sheet
    rank-0.json       a sheet: the tree, where each array lies, and the checksum of each block
    rank-0.bin        the arrays' bytes, one after another
"""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..values import Torn, Unreadable

VERSION = 1
BLOCK = 4 << 20
ALIGNMENT = 64
_PER_OWNER = 1 << 20
HEAD = "checkpoint.json"
_NAME = re.compile(r"step-([0-9]{9,18})(?:\.([0-9]{1,18}))?")
_LARGEST_BLOCK = 1 << 30
_END = 1 << 63
_LATEST = 1e11
"""Seconds since 1970: some thousand years."""
_PREFIX = '{"crc32": "%08x", "content": '
_PREFIX_LENGTH = len(_PREFIX % 0)


@dataclass(frozen=True)
class Array:
    """Where an array lies, and what it is."""

    kind: str
    dtype: str
    shape: Tuple[int, ...]
    offset: int
    size: int

    def __post_init__(self) -> None:
        _refuse_unless(_are(str, self.kind, self.dtype) and _are_sizes(self.shape))
        _refuse_unless(_are_sizes((self.offset, self.size)))


@dataclass(frozen=True)
class Chunk:
    """A piece of a tensor that is spread over ranks: which, where in it, and the array with its bytes."""

    path: str
    offsets: Tuple[int, ...]
    sizes: Tuple[int, ...]
    array: int

    def __post_init__(self) -> None:
        _refuse_unless(_are(str, self.path) and len(self.offsets) == len(self.sizes))
        _refuse_unless(_are_sizes((*self.offsets, *self.sizes, self.array)))


@dataclass(frozen=True)
class Sheet:
    """What one rank wrote. `parts` is empty but for rank 0, which writes what all ranks have in common."""

    rank: int
    parts: Dict[str, Any]
    own: Any
    arrays: Tuple[Array, ...]
    chunks: Tuple[Chunk, ...]
    size: int
    block: int
    crcs: Tuple[int, ...]

    def __post_init__(self) -> None:
        _refuse_unless(_are(dict, self.parts) and _are_sizes((self.rank, self.size, self.block)))
        _refuse_unless(0 < self.block <= _LARGEST_BLOCK and _are_sizes(self.crcs))
        # So a size that was made up needs as many checksums, and cannot ask for more memory than those.
        _refuse_unless(len(self.crcs) == -(-self.size // self.block))
        _refuse_unless(all(array.offset + array.size <= self.size for array in self.arrays))
        _refuse_unless(all(chunk.array < len(self.arrays) for chunk in self.chunks))


@dataclass(frozen=True)
class Signature:
    """What the head knows of a rank's two files."""

    size: int
    sheet_size: int
    sheet_crc: int

    def __post_init__(self) -> None:
        _refuse_unless(_are_sizes((self.size, self.sheet_size, self.sheet_crc)))


@dataclass(frozen=True)
class CheckpointHead:
    """What makes a folder a checkpoint. `serial` orders those of a place, also when a run went back."""

    step: int
    serial: int
    time: float
    run: str
    attempt: int
    world_size: int
    nonce: str
    metrics: Dict[str, float] = field(default_factory=dict)
    ranks: Dict[int, Signature] = field(default_factory=dict)
    version: int = VERSION

    def __post_init__(self) -> None:
        _refuse_unless(_are_sizes((self.step, self.serial, self.attempt, self.world_size, *self.ranks)))
        _refuse_unless(_are(str, self.run, self.nonce) and _are(dict, self.metrics))
        _refuse_unless(_is_number(self.time) and 0 <= self.time < _LATEST)
        _refuse_unless(all(map(_is_number, self.metrics.values())))

    @property
    def size(self) -> int:
        return sum(signature.size + signature.sheet_size for signature in self.ranks.values())


def serial(generation: int, number: int) -> int:
    """Orders checkpoints by which process owned the place, then by when each was saved.

    So what an owner that was replaced still commits never comes before what its successor has saved.
    """
    return generation * _PER_OWNER + number


def generation(serial: int) -> int:
    return serial // _PER_OWNER


def name_of(step: int, version: int = 0) -> str:
    return f"step-{step:09d}" + (f".{version}" if version else "")


def step_of(name: str) -> Optional[int]:
    """The step in a checkpoint's name; None if it is no such name."""
    match = _NAME.fullmatch(name)
    return int(match.group(1)) if match else None


def data_file(rank: int) -> str:
    return f"rank-{rank}.bin"


def sheet_file(rank: int) -> str:
    return f"rank-{rank}.json"


def offsets(sizes: Sequence[int]) -> Tuple[List[int], int]:
    """Where each array begins, and where the last ends."""
    places, end = [], 0
    for size in sizes:
        places.append(end)
        end += -(-size // ALIGNMENT) * ALIGNMENT
    return places, end


def blocks(size: int, block: int = BLOCK) -> List[Tuple[int, int]]:
    """The (begin, end) of each block."""
    return [(begin, min(begin + block, size)) for begin in range(0, size, block)]


def seal(content: Any) -> bytes:
    """Writes JSON that carries the checksum of what it says."""
    body = json.dumps(content, separators=(",", ":")).encode("ascii")
    return (_PREFIX % zlib.crc32(body)).encode("ascii") + body + b"}\n"


def unseal(text: bytes) -> Dict[str, Any]:
    """Reads what `seal` wrote. What has a right checksum is never torn: a later Bireme may have meant it."""
    body = text[_PREFIX_LENGTH:-2]
    if len(text) < _PREFIX_LENGTH + 2 or text[-2:] != b"}\n":
        raise Torn("is cut short")
    if text[:_PREFIX_LENGTH] != (_PREFIX % zlib.crc32(body)).encode("ascii"):
        raise Torn("has a wrong checksum")
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"is not understood: {error}") from error
    if not isinstance(content, dict):
        raise Unreadable("is not understood: it holds no fields")
    return content


def write_head(head: CheckpointHead) -> bytes:
    return seal(asdict(head))


def read_head(text: bytes) -> CheckpointHead:
    """Reads a head. Its fields refuse what makes no sense: others may have written it, checksum and all."""
    content = unseal(text)
    if content.get("version") != VERSION:
        raise Unreadable(f"is of format {str(content.get('version'))[:20]}, and this Bireme reads {VERSION}")
    ranks = {int(rank): Signature(**signature) for rank, signature in content.pop("ranks").items()}
    return CheckpointHead(**content, ranks=ranks)


def write_sheet(sheet: Sheet) -> bytes:
    # Not asdict(), which would copy the tree once more.
    content = dict(vars(sheet))
    content["arrays"] = [
        [array.kind, array.dtype, array.shape, array.offset, array.size] for array in sheet.arrays
    ]
    content["chunks"] = [[chunk.path, chunk.offsets, chunk.sizes, chunk.array] for chunk in sheet.chunks]
    return seal(content)


def read_sheet(text: bytes) -> Sheet:
    content = unseal(text)
    arrays = tuple(
        Array(kind, dtype, tuple(shape), offset, size)
        for kind, dtype, shape, offset, size in content.pop("arrays")
    )
    chunks = tuple(
        Chunk(path, tuple(places), tuple(sizes), array)
        for path, places, sizes, array in content.pop("chunks")
    )
    crcs = tuple(content.pop("crcs"))
    return Sheet(**content, arrays=arrays, chunks=chunks, crcs=crcs)


def sign(sheet: Sheet, text: bytes) -> Signature:
    return Signature(sheet.size, len(text), zlib.crc32(text))


def _refuse_unless(fits: bool) -> None:
    """Refuses what no writer of ours wrote, though its checksum is right: nothing after this looks again."""
    if not fits:
        raise ValueError("a field has a value that it cannot have")


def _are(kind: type, *values: Any) -> bool:
    return all(isinstance(value, kind) for value in values)


def _are_sizes(values: Sequence[Any]) -> bool:
    return all(
        isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _END for value in values
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or _are_sizes((abs(value) if isinstance(value, int) else None,))
