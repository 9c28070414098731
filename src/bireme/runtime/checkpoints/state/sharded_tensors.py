"""Takes and puts back tensors that are spread over ranks (FSDP, tensor parallelism).

torch.distributed.checkpoint knows which piece a rank has, and plans which saved pieces make up another's: so
the number of ranks may change, or all of it may come back into one process. The bytes are read and written by
us, because its own format has pickles in it, and its own saving makes the ranks wait for each other.
"""

from __future__ import annotations

import contextlib
import re
import sys
import warnings
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Mapping, Tuple

from ..storage.checkpoint_format import Sheet, data_file
from ..storage.checkpoint_reader import Shelf
from . import arrays
from .plain_values import Node

_STATE = re.compile(r".*\['state'\]\[(\d+)\]\[[^\]]*\]")


@dataclass(frozen=True)
class Piece:
    """What this rank has of a tensor, and where in it."""

    offsets: Tuple[int, ...]
    sizes: Tuple[int, ...]
    local: Any


def torch() -> Any:
    return sys.modules["torch"]


def pieces(tensor: Any) -> List[Piece]:
    """The pieces that this rank writes; of copies, the first rank that has one writes it."""
    coordinate = tensor.device_mesh.get_coordinate()
    if coordinate is None:
        return []
    if any(placed.is_replicate() and at for placed, at in zip(tensor.placements, coordinate)):
        return []
    local = tensor.to_local()
    chunks = tensor.__create_chunk_list__()
    return [Piece(tuple(chunk.offsets), tuple(chunk.sizes), local) for chunk in chunks if local.numel()]


def read(
    shelf: Shelf, name: str, sheets: Mapping[int, Sheet], nodes: Mapping[str, Node], parts: Mapping[str, Any]
) -> Dict[str, Any]:
    """The tensors that were spread, by path: spread as they are here, or whole if they are not."""
    wanted: Dict[str, Node] = {}
    for part in parts:
        wanted.update((node["spread"], node) for node in _spread(nodes[part]))
    if not wanted:
        return {}
    library = arrays.library("torch", "tensors of it are in the checkpoint")
    here = templates(parts)
    made = {}
    for path, node in wanted.items():
        template, dtype, shape = here.get(path), getattr(library, node["dtype"]), tuple(node["shape"])
        if template is None or tuple(template.shape) != shape:
            made[path] = library.empty(shape, dtype=dtype)
        else:
            made[path] = library.empty_like(template, dtype=dtype, requires_grad=False).detach()
    checkpoint = arrays.library("torch.distributed.checkpoint", "tensors in it were spread over ranks")
    with warnings.catch_warnings():
        # It thinks that we have forgotten something.
        warnings.simplefilter("ignore")
        checkpoint.load(made, storage_reader=_reader(checkpoint, shelf, name, sheets, wanted), no_dist=True)
    return made


def templates(parts: Mapping[str, Any]) -> Dict[str, Any]:
    """The spread tensors of parts by path; an optimizer without a state yet has those of its parameters."""
    from . import parts as kinds

    here: Dict[str, Any] = _Parameters()
    for name, part in parts.items():
        if part is None:
            continue
        taking = arrays.Taking()
        kinds.take(name, part, taking)
        here.update(taking.spread)
        groups = getattr(part, "param_groups", None) or ()
        parameters = [parameter for group in groups for parameter in group["params"]]
        for number, parameter in enumerate(parameters):
            if arrays.is_spread(parameter):
                here[f"{name}['state'][{number}]"] = parameter
    return here


def fitted(saved: Any, here: Any) -> Any:
    """A tensor that was saved whole, spread as the one that is here."""
    if not arrays.is_spread(here) or arrays.is_spread(saved) or not isinstance(saved, torch().Tensor):
        return saved
    if tuple(saved.shape) != tuple(here.shape):
        return saved
    distributed: Any = sys.modules["torch.distributed.tensor"]
    whole = saved.to(here.device)
    # Every rank has all of it, so none needs to send it.
    return distributed.distribute_tensor(whole, here.device_mesh, here.placements, src_data_rank=None)


class _Parameters(Dict[str, Any]):
    """Tensors by path, where the state of a parameter is spread as the parameter."""

    def get(self, path: str, default: Any = None) -> Any:
        match = _STATE.fullmatch(path)
        if path in self or match is None:
            return super().get(path, default)
        return super().get(path[: match.end(1) + 1], default)


def _spread(node: Node) -> Iterator[Node]:
    """All nodes of spread tensors in a tree."""
    if isinstance(node, list):
        for inner in node:
            yield from _spread(inner)
    elif isinstance(node, dict):
        if "spread" in node:
            yield node
        else:
            for inner in node.values():
                yield from _spread(inner)


def _reader(
    checkpoint: Any, shelf: Shelf, name: str, sheets: Mapping[int, Sheet], wanted: Mapping[str, Node]
) -> Any:
    """A StorageReader of torch's, whose class is known only once torch is imported."""

    class Reader(_PieceReader, checkpoint.StorageReader):  # type: ignore[misc, name-defined, unused-ignore]
        pass

    return Reader(checkpoint.metadata, shelf, name, sheets, wanted)


class _PieceReader:
    """Gives torch.distributed.checkpoint the pieces that lie in our files."""

    def __init__(
        self, kinds: Any, shelf: Shelf, name: str, sheets: Mapping[int, Sheet], wanted: Mapping[str, Node]
    ) -> None:
        self._kinds, self._shelf, self._name, self._wanted = kinds, shelf, name, wanted
        self._places = {
            (chunk.path, chunk.offsets): (sheet, chunk)
            for sheet in sheets.values()
            for chunk in sheet.chunks
            if chunk.path in wanted
        }

    def read_metadata(self, *_: Any, **__: Any) -> Any:
        kinds, library = self._kinds, torch()
        described = {}
        for path, node in self._wanted.items():
            properties = kinds.TensorProperties(dtype=getattr(library, node["dtype"]))
            chunks = [
                kinds.ChunkStorageMetadata(library.Size(chunk.offsets), library.Size(chunk.sizes))
                for _, chunk in self._places.values()
                if chunk.path == path
            ]
            described[path] = kinds.TensorStorageMetadata(properties, library.Size(node["shape"]), chunks)
        return kinds.Metadata(described)

    def read_data(self, plan: Any, planner: Any) -> Any:
        for item in plan.items:
            sheet, chunk = self._places[item.storage_index.fqn, tuple(item.storage_index.offset)]
            source = _piece(self._shelf, self._name, sheet, chunk.array)
            for axis, (begin, length) in enumerate(zip(item.storage_offsets, item.lengths)):
                source = source.narrow(axis, begin, length)
            target = planner.resolve_tensor(item).detach()
            target.copy_(source)
            planner.commit_tensor(item, target)
        done = torch().futures.Future()
        done.set_result(None)
        return done

    def reset(self, checkpoint_id: Any = None) -> None:
        pass

    def set_up_storage_reader(self, metadata: Any, is_coordinator: bool, *_: Any, **__: Any) -> None:
        pass

    def prepare_local_plan(self, plan: Any) -> Any:
        return plan

    def prepare_global_plan(self, plans: Any) -> Any:
        return plans

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return True


def _piece(shelf: Shelf, name: str, sheet: Sheet, number: int) -> Any:
    array = sheet.arrays[number]
    buffer = bytearray(array.size)
    with contextlib.closing(shelf.open(name, data_file(sheet.rank))) as source:
        source.seek(array.offset)
        view = memoryview(buffer)
        while len(view):
            got = source.readinto(view)
            if not got:
                raise OSError(f"{name}/{data_file(sheet.rank)} was cut short while it was read")
            view = view[got:]
    at_start = type(array)(array.kind, array.dtype, array.shape, 0, array.size)
    return arrays.tensor(at_start, buffer)
