"""What does this rank write of a state: everything on rank 0, and its own on the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Tuple

from ...script.complaints import Complaint
from ..storage.checkpoint_format import Chunk
from . import arrays, parts, plain_values


@dataclass(frozen=True)
class Captured:
    """A state as trees and the arrays that they name, not copied yet."""

    parts: Dict[str, Any]
    own: Any
    taken: List[arrays.Taken]
    chunks: Tuple[Chunk, ...]
    is_sharded: bool


def capture(of: Mapping[str, Any], own: Mapping[str, Any], rank: int) -> Captured:
    """Takes the state of all parts; Complaint names the first thing that cannot be saved."""
    mine = arrays.Taking()
    # Every rank walks through the parts: state_dict() may need all of them, and so does a bad part.
    common = mine if rank == 0 else arrays.Taking()
    nodes = {str(name): parts.capture(str(name), part, common) for name, part in of.items()}
    spread = list(common.spread)
    node = plain_values.encode(dict(own), ("own",), mine)
    if len(mine.spread) > (len(spread) if rank == 0 else 0):
        raise Complaint(
            f"{mine.spread[-1][0]} is a DTensor, which cannot be a rank's own", "save it as a part"
        )
    chunks = _chunks(spread, mine) if spread else ()
    return Captured(nodes, node, mine.taken, chunks, bool(spread))


def _chunks(spread: List[Tuple[str, Any]], mine: arrays.Taking) -> Tuple[Chunk, ...]:
    from . import sharded_tensors

    chunks = []
    for path, tensor in spread:
        for piece in sharded_tensors.pieces(tensor):
            node = mine.add(arrays.of_torch(sharded_tensors.torch(), piece.local, (path,)))
            chunks.append(Chunk(path, piece.offsets, piece.sizes, node["a"]))
    return tuple(chunks)
