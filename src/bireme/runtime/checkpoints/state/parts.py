"""Takes the state of a script's parts for a checkpoint, and puts it back.

A JAX pytree may hold named tuples and classes of other libraries. They are not saved: only the leaves are, by
their paths, and they are put back onto the tree that is given to `restore`.

Putting back has two halves. `plan` compares what was saved with what is here, and raises before anything is
changed; the plans are then carried out, and undone if one of them fails after all.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Tuple

from ...script.complaints import Complaint
from ..storage.checkpoint_format import Chunk
from . import arrays, comparison, plain_values, tensorflow_objects
from .plain_values import Node

_WRAPPERS = {"DistributedDataParallel": "module", "DataParallel": "module", "OptimizedModule": "_orig_mod"}


@dataclass(frozen=True)
class RestorePlan:
    """How one part is put back: `carry_out` answers the restored value, `undo` brings back what was there."""

    name: str
    order: int
    carry_out: Callable[[], Any]
    undo: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Captured:
    """A state as trees and the arrays that they name, not copied yet."""

    parts: Dict[str, Any]
    own: Any
    taken: List[arrays.Taken]
    chunks: Tuple[Chunk, ...]
    is_sharded: bool


def capture(of: Mapping[str, Any], own: Mapping[str, Any], rank: int) -> Captured:
    """Takes what this rank writes: everything on rank 0, and its own and its pieces on the others.

    Complaint names the first thing that cannot be saved.
    """
    mine = arrays.Taking()
    # Every rank walks through the parts: state_dict() may need all of them, and so does a bad part.
    common = mine if rank == 0 else arrays.Taking()
    nodes = {str(name): take(str(name), part, common) for name, part in of.items()}
    spread = list(common.spread)
    node = plain_values.encode(dict(own), ("own",), mine)
    if len(mine.spread) > (len(spread) if rank == 0 else 0):
        raise Complaint(
            f"{mine.spread[-1][0]} is a DTensor, which cannot be a rank's own", "save it as a part"
        )
    chunks = []
    if spread:
        from . import sharded_tensors

        for path, tensor in spread:
            for piece in sharded_tensors.pieces(tensor):
                added = mine.add(arrays.of_torch(sharded_tensors.torch(), piece.local, (path,)))
                chunks.append(Chunk(path, piece.offsets, piece.sizes, added["a"]))
    return Captured(nodes, node, mine.taken, tuple(chunks), bool(spread))


def take(name: str, part: Any, taking: plain_values.Take) -> Node:
    """The node of a part's state, whose arrays go to `taking`; Complaint if it cannot be saved."""
    bare = unwrapped(part)
    if isinstance(bare, type):
        raise Complaint(
            f"{name} is a class, which cannot be saved", f"save an object of it: {name}={name}(...)"
        )
    state = bare
    if callable(getattr(bare, "state_dict", None)):
        state = bare.state_dict()
    elif tensorflow_objects.is_one(bare):
        state = tensorflow_objects.values(bare)
    elif is_pytree(bare):
        state = dict(_leaves(bare)[0])
    return plain_values.encode(state, (name,), taking)


def unwrapped(part: Any) -> Any:
    """The module inside of data parallel and compiled wrappers, whose names have no prefix."""
    while type(part).__name__ in _WRAPPERS and hasattr(part, _WRAPPERS[type(part).__name__]):
        part = getattr(part, _WRAPPERS[type(part).__name__])
    return part


def plan(name: str, part: Any, node: Node, give: Callable[[Node], Any]) -> RestorePlan:
    """How the saved node comes back into the part that is here."""
    bare = unwrapped(part)
    torch: Any = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "nn") and isinstance(bare, torch.nn.Module):
        return _module(name, part, bare, plain_values.decode(node, give))
    value = owned(plain_values.decode(node, give))
    if callable(getattr(bare, "load_state_dict", None)):
        return _stateful(name, part, bare, value)
    if tensorflow_objects.is_one(bare):
        tensorflow_objects.refuse_differences(name, bare, value)
        before = tensorflow_objects.values(bare)

        def assign() -> Any:
            tensorflow_objects.assign(bare, value)
            return bare

        return RestorePlan(name, 1, assign, lambda: tensorflow_objects.assign(bare, before))
    if is_pytree(bare):
        made = _onto_pytree(name, bare, comparison.mapping(name, value))
        return RestorePlan(name, 0, lambda: made)
    if torch is not None and hasattr(torch, "Tensor") and isinstance(bare, torch.Tensor):
        comparison.refuse_differences(name, {name: value}, {name: bare})

        def copy() -> Any:
            with torch.no_grad():
                return bare.copy_(value)

        return RestorePlan(name, 2, copy)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(bare, numpy.ndarray):
        comparison.refuse_differences(name, {name: value}, {name: bare})
        kept = bare.copy()

        def copy_into() -> Any:
            if not bare.flags.writeable:
                return value
            numpy.copyto(bare, value)
            return bare

        return RestorePlan(name, 1, copy_into, lambda: numpy.copyto(bare, kept))
    return RestorePlan(name, 0, lambda: value)


def names(node: Node) -> List[str]:
    """The names in a part that was saved by names."""
    return [str(key) for key, _ in node["d"]] if isinstance(node, dict) and "d" in node else []


def carry_out(plans: List[RestorePlan]) -> Dict[str, Any]:
    """Puts all parts back, or none: what can fail comes first, and is undone."""
    values: Dict[str, Any] = {}
    done: List[RestorePlan] = []
    for plan in sorted(plans, key=lambda plan: plan.order):
        try:
            values[plan.name] = plan.carry_out()
        except Exception as error:
            for earlier in reversed(done):
                earlier.undo()
            raise Complaint(
                f"{plan.name} does not take what was saved: {type(error).__name__}: {error}",
                "nothing was restored; is it made with the same settings as then?",
            ) from error
        done.append(plan)
    return {plan.name: values[plan.name] for plan in plans}


def owned(value: Any) -> Any:
    """The same tree with tensors that have memory of their own, not the checkpoint's buffer."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return value
    return _cloned(torch, value)


def giving(of: Tuple[Any, ...], buffer: Any, spread: Mapping[str, Any]) -> Callable[[Node], Any]:
    """Makes the values of the nodes that `arrays.Taking` made; `spread` has the tensors of several ranks."""

    def give(node: Node) -> Any:
        if "a" in node:
            return arrays.build(of[node["a"]], buffer)
        if "spread" in node:
            return spread[node["spread"]]
        if "torch" in node:
            kind, text = node["torch"]
            torch = arrays.library("torch", "values of it are in the checkpoint")
            return getattr(torch, text) if kind == "dtype" else torch.device(text)
        if "key" in node:
            jax = arrays.library("jax", "keys of it are in the checkpoint")
            return jax.random.wrap_key_data(give(node["data"]), impl=node["key"])
        raise Complaint(f"the checkpoint holds a value of a kind that is not known here, {next(iter(node))}")

    return give


def _cloned(torch: Any, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value if arrays.is_spread(value) else value.clone()
    if isinstance(value, dict):
        for key in value:
            value[key] = _cloned(torch, value[key])
    elif isinstance(value, list):
        value[:] = [_cloned(torch, item) for item in value]
    elif type(value) is tuple:
        return tuple(_cloned(torch, item) for item in value)
    return value


def _module(name: str, part: Any, bare: Any, value: Any) -> RestorePlan:
    here = bare.state_dict()
    saved = comparison.without_prefix(comparison.mapping(name, value), here)
    comparison.refuse_differences(name, saved, here)

    def put() -> Any:
        fitted = saved
        if any(arrays.is_spread(value) for value in here.values()):
            from . import sharded_tensors

            fitted = {key: sharded_tensors.fitted(value, here[key]) for key, value in saved.items()}
        bare.load_state_dict(fitted)
        return part

    # Last of all, because it needs no undoing: its names and shapes are known to fit.
    return RestorePlan(name, 2, put)


def _stateful(name: str, part: Any, bare: Any, value: Any) -> RestorePlan:
    before = bare.state_dict() if callable(getattr(bare, "state_dict", None)) else None
    if isinstance(before, dict) and "param_groups" in before and isinstance(value, Mapping):
        comparison.refuse_other_parameters(name, value, before, bare)

    if hasattr(bare, "param_groups") and isinstance(value, Mapping):
        # A state that was saved whole is spread as its parameters are.
        parameters = [parameter for group in bare.param_groups for parameter in group["params"]]
        for number, parameter in enumerate(parameters):
            if arrays.is_spread(parameter) and number in value.get("state", ()):
                from . import sharded_tensors

                states = value["state"][number]
                states.update(
                    {key: sharded_tensors.fitted(state, parameter) for key, state in states.items()}
                )

    def put() -> Any:
        bare.load_state_dict(value)
        return part

    def undo() -> None:
        if before is not None:
            bare.load_state_dict(before)

    return RestorePlan(name, 1, put, undo)


def is_pytree(value: Any) -> bool:
    """Whether it holds arrays of JAX, or descriptions of them."""
    jax: Any = sys.modules.get("jax")
    if jax is None or not hasattr(jax, "Array"):
        return False
    kinds = (jax.Array, jax.ShapeDtypeStruct)
    try:
        return any(isinstance(leaf, kinds) for leaf in jax.tree_util.tree_leaves(value))
    except (ValueError, TypeError, RecursionError):
        return False  # JAX sorts a dict's keys, and a plain tree may have keys that have no order


def _onto_pytree(name: str, template: Any, saved: Mapping[str, Any]) -> Any:
    """The template with the saved leaves, each on the device of the template's; Complaint if they differ."""
    here, structure = _leaves(template)
    comparison.refuse_differences(name, saved, dict(here))
    jax: Any = sys.modules["jax"]
    placed = []
    for key, leaf in here:
        value = saved[key]
        if isinstance(leaf, (jax.Array, jax.ShapeDtypeStruct)):
            sharding = getattr(leaf, "sharding", None)
            value = jax.device_put(value, sharding) if sharding is not None else value
        elif isinstance(leaf, sys.modules["numpy"].ndarray):
            value = sys.modules["numpy"].asarray(value)
        placed.append(value)
    return jax.tree_util.tree_unflatten(structure, placed)


def _leaves(value: Any) -> Tuple[List[Tuple[str, Any]], Any]:
    tree: Any = sys.modules["jax"].tree_util
    found, structure = tree.tree_flatten_with_path(value)
    return [(tree.keystr(path) or "it", leaf) for path, leaf in found], structure
