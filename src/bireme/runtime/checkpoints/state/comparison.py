"""Compares what was saved with what is here, and names the tensors that differ."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping

from ...script.complaints import Complaint

MOST = 8
# Of torch's lazy layers, which take the shape of whatever they are given first.
_LAZY = ("UninitializedParameter", "UninitializedBuffer")
# State of torch's optimizers that has the shape of its parameter.
_SHAPED = re.compile(
    "exp_avg|exp_avg_sq|max_exp_avg_sq|exp_inf|momentum_buffer|square_avg|grad_avg|acc_delta|sum|ax|mu"
)


def mapping(name: str, value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    raise Complaint(f"{name} was saved as a {type(value).__name__}, and not by names, as it would be here")


def without_prefix(saved: Mapping[str, Any], here: Mapping[str, Any]) -> Mapping[str, Any]:
    """The saved names without the prefix of a wrapper that is not here."""
    for prefix in ("module.", "_orig_mod."):
        is_there = saved and all(key.startswith(prefix) for key in saved)
        if is_there and not any(key.startswith(prefix) for key in here):
            return {key[len(prefix) :]: value for key, value in saved.items()}
    return saved


def refuse_differences(name: str, saved: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Raises Complaint that names missing, unexpected and differing tensors."""
    found: List[str] = []
    for key, value in here.items():
        if key not in saved:
            found.append(f"{key} is not in the checkpoint")
        elif type(value).__name__ in _LAZY:
            continue
        elif _shape(saved[key]) != _shape(value):
            found.append(f"{key} is {_shown(saved[key])} in the checkpoint and {_shown(value)} here")
    found += [f"{key} is in the checkpoint and not here" for key in saved if key not in here]
    if found:
        raise Complaint(
            f"{name} is not what was saved: {_list(found)}",
            "nothing was restored; build it as it was when it was saved, or restore without it",
        )


def refuse_other_parameters(
    name: str, saved: Mapping[str, Any], here: Dict[str, Any], optimizer: Any
) -> None:
    """Raises Complaint if an optimizer has other groups, or parameters of other shapes."""
    counted = [len(group["params"]) for group in saved.get("param_groups", ())]
    counts = [len(group["params"]) for group in here["param_groups"]]
    if counted != counts:
        raise Complaint(
            f"{name} is not what was saved: its groups have {_counts(counted)} parameters in the checkpoint "
            f"and {_counts(counts)} here",
            "nothing was restored; give it the same parameters in the same groups",
        )
    # Another version of the same optimizer has more settings, or fewer; a scheduler adds its own.
    there = {key for group in saved["param_groups"] for key in group if key != "initial_lr"}
    now = {key for group in here["param_groups"] for key in group if key != "initial_lr"}
    if there - now and now - there:
        raise Complaint(
            f"{name} is another optimizer than was saved: that one had {', '.join(sorted(there - now))}, "
            f"and this one has {', '.join(sorted(now - there))}",
            "nothing was restored; build it as it was when it was saved, or restore without it",
        )
    groups = getattr(optimizer, "param_groups", ())
    parameters = [parameter for group in groups for parameter in group["params"]]
    numbers = [number for group in saved["param_groups"] for number in group["params"]]
    found = []
    for number, parameter in zip(numbers, parameters):
        for key, value in saved.get("state", {}).get(number, {}).items():
            if _SHAPED.fullmatch(str(key)) and _shape(value) != _shape(parameter):
                was, is_now = _shown(value), _shown(parameter)
                found.append(f"{key} of parameter {number} is {was} in the checkpoint and {is_now} here")
    if found:
        raise Complaint(f"{name} is not what was saved: {_list(found)}", "nothing was restored")


def _shape(value: Any) -> Any:
    shape = getattr(value, "shape", None)
    return None if shape is None else tuple(shape)


def _shown(value: Any) -> str:
    shape = _shape(value)
    if shape is None:
        return f"a {type(value).__name__}"
    return "x".join(map(str, shape)) or "a scalar"


def _counts(counts: List[int]) -> str:
    return ", ".join(map(str, counts)) or "no"


def _list(found: List[str]) -> str:
    more = f", and {len(found) - MOST} more" if len(found) > MOST else ""
    return ", ".join(found[:MOST]) + more
