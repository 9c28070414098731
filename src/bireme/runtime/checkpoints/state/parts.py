"""What is a part of a checkpoint: how is its state taken, and how is it put back.

Putting back has two halves. `plan` compares what was saved with what is here, and raises before anything is
changed; the plans are then carried out, and undone if one of them fails after all.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Tuple

from ...script.complaints import Complaint
from . import arrays, comparison, plain_values, pytrees, tensorflow_objects
from .plain_values import Node

_WRAPPERS = {"DistributedDataParallel": "module", "DataParallel": "module", "OptimizedModule": "_orig_mod"}


@dataclass(frozen=True)
class Plan:
    """How one part is put back: `carry_out` answers the restored value, `undo` brings back what was there."""

    name: str
    order: int
    carry_out: Callable[[], Any]
    undo: Callable[[], None]


def capture(name: str, part: Any, take: plain_values.Take) -> Node:
    """The node of a part's state; Complaint if it cannot be saved."""
    return plain_values.encode(_state(name, part), (name,), take)


def unwrapped(part: Any) -> Any:
    """The module inside of data parallel and compiled wrappers, whose names have no prefix."""
    while type(part).__name__ in _WRAPPERS and hasattr(part, _WRAPPERS[type(part).__name__]):
        part = getattr(part, _WRAPPERS[type(part).__name__])
    return part


def plan(name: str, part: Any, node: Node, give: Callable[[Node], Any]) -> Plan:
    """How the saved node comes back into the part that is here."""
    bare = unwrapped(part)
    torch: Any = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "nn") and isinstance(bare, torch.nn.Module):
        return _module(name, part, bare, plain_values.decode(node, give))
    value = owned(plain_values.decode(node, give))
    if callable(getattr(bare, "load_state_dict", None)):
        return _stateful(name, part, bare, value)
    if tensorflow_objects.is_one(bare):
        return _variables(name, bare, value)
    if pytrees.is_pytree(bare):
        made = pytrees.onto(name, bare, comparison.mapping(name, value))
        return Plan(name, 0, lambda: made, _nothing)
    if torch is not None and hasattr(torch, "Tensor") and isinstance(bare, torch.Tensor):
        return _tensor(torch, name, bare, value)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(bare, numpy.ndarray):
        return _array(numpy, name, bare, value)
    return Plan(name, 0, lambda: value, _nothing)


def names(node: Node) -> List[str]:
    """The names in a part that was saved by names."""
    return [str(key) for key, _ in node["d"]] if isinstance(node, dict) and "d" in node else []


def carry_out(plans: List[Plan]) -> Dict[str, Any]:
    """Puts all parts back, or none: what can fail comes first, and is undone."""
    values: Dict[str, Any] = {}
    done: List[Plan] = []
    for one in sorted(plans, key=lambda one: one.order):
        try:
            values[one.name] = one.carry_out()
        except Exception as error:
            for earlier in reversed(done):
                earlier.undo()
            raise Complaint(
                f"{one.name} does not take what was saved: {type(error).__name__}: {error}",
                "nothing was restored; is it made with the same settings as then?",
            ) from error
        done.append(one)
    return {one.name: values[one.name] for one in plans}


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


def _state(name: str, part: Any) -> Any:
    """What there is to save of a part."""
    bare = unwrapped(part)
    if isinstance(bare, type):
        raise Complaint(
            f"{name} is a class, which cannot be saved", f"save an object of it: {name}={name}(...)"
        )
    if callable(getattr(bare, "state_dict", None)):
        return bare.state_dict()
    if tensorflow_objects.is_one(bare):
        return tensorflow_objects.values(bare)
    if pytrees.is_pytree(bare):
        return pytrees.leaves(bare)
    return bare


def _cloned(torch: Any, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value if arrays.is_spread(value) else value.clone()
    if isinstance(value, dict):
        for key in value:
            value[key] = _cloned(torch, value[key])
    elif isinstance(value, list):
        value[:] = [_cloned(torch, one) for one in value]
    elif type(value) is tuple:
        return tuple(_cloned(torch, one) for one in value)
    return value


def _module(name: str, part: Any, bare: Any, value: Any) -> Plan:
    here = bare.state_dict()
    saved = comparison.without_prefix(comparison.mapping(name, value), here)
    comparison.refuse_differences(name, saved, here)

    def put() -> Any:
        bare.load_state_dict(_fitted(saved, here))
        return part

    # Last of all, because it needs no undoing: its names and shapes are known to fit.
    return Plan(name, 2, put, _nothing)


def _fitted(saved: Mapping[str, Any], here: Mapping[str, Any]) -> Mapping[str, Any]:
    if not any(arrays.is_spread(one) for one in here.values()):
        return saved
    from . import sharded_tensors

    return {key: sharded_tensors.fitted(value, here[key]) for key, value in saved.items()}


def _fit_states(saved: Mapping[str, Any], parameters: List[Any]) -> None:
    """Spreads an optimizer's state that was saved whole as its parameters are."""
    for number, parameter in enumerate(parameters):
        if arrays.is_spread(parameter) and number in saved.get("state", ()):
            from . import sharded_tensors

            states = saved["state"][number]
            states.update({key: sharded_tensors.fitted(value, parameter) for key, value in states.items()})


def _stateful(name: str, part: Any, bare: Any, value: Any) -> Plan:
    before = bare.state_dict() if callable(getattr(bare, "state_dict", None)) else None
    if isinstance(before, dict) and "param_groups" in before and isinstance(value, Mapping):
        comparison.refuse_other_parameters(name, value, before, bare)

    if hasattr(bare, "param_groups") and isinstance(value, Mapping):
        _fit_states(value, [one for group in bare.param_groups for one in group["params"]])

    def put() -> Any:
        bare.load_state_dict(value)
        return part

    def undo() -> None:
        if before is not None:
            bare.load_state_dict(before)

    return Plan(name, 1, put, undo)


def _variables(name: str, part: Any, value: Any) -> Plan:
    tensorflow_objects.refuse_differences(name, part, value)

    def put() -> Any:
        tensorflow_objects.assign(part, value)
        return part

    before = tensorflow_objects.values(part)
    return Plan(name, 1, put, lambda: tensorflow_objects.assign(part, before))


def _tensor(torch: Any, name: str, part: Any, value: Any) -> Plan:
    comparison.refuse_differences(name, {name: value}, {name: part})

    def put() -> Any:
        with torch.no_grad():
            return part.copy_(value)

    return Plan(name, 2, put, _nothing)


def _array(numpy: Any, name: str, part: Any, value: Any) -> Plan:
    comparison.refuse_differences(name, {name: value}, {name: part})

    def put() -> Any:
        if not part.flags.writeable:
            return value
        numpy.copyto(part, value)
        return part

    before = part.copy()
    return Plan(name, 1, put, lambda: numpy.copyto(part, before))


def _nothing() -> None:
    pass
