"""Saves and restores gradients that no optimizer has used yet, for scripts that accumulate them.

Each rank has its own, since ranks that accumulate need not talk meanwhile (`no_sync`). After each step of any
optimizer of torch its gradients are marked with their version, which every later backward pass changes. So
what a usual loop leaves behind (gradients that are cleared only before the next backward pass) takes no room.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, Iterator, List, Mapping, Tuple

from . import arrays, parts
from .plain_values import shown

Gradients = Dict[str, Dict[str, Any]]
"""By part and parameter; None is one that is there and holds zeros. Any: a tensor."""

_MARK = "_bireme_used"
_watched: List[Any] = []


def watch() -> None:
    """From now on it is known which gradients an optimizer has used."""
    optimizers: Any = sys.modules.get("torch.optim.optimizer")
    if not _watched and hasattr(optimizers, "register_optimizer_step_post_hook"):
        _watched.append(optimizers.register_optimizer_step_post_hook(_mark))


def capture(of: Mapping[str, Any]) -> Tuple[Gradients, List[str]]:
    """The gradients of all parts, if some were not used yet; and the names of those that cannot be saved."""
    there: List[Tuple[str, str, Any]] = []
    unsaved: List[str] = []
    for part, name, parameter in _parameters(of):
        gradient = parameter.grad
        if gradient is None:
            continue
        inner = getattr(gradient, "_local_tensor", gradient)
        try:
            if getattr(inner, _MARK, None) == inner._version:
                continue
        except Exception:
            pass  # what is not known to be used is saved
        local = _local(gradient, parameter)
        if local is None:
            unsaved.append(shown((part, name)))
        else:
            there.append((part, name, local.detach()))
    pending = _nonzero([local for _, _, local in there])
    found: Gradients = {}
    for (part, name, local), is_pending in zip(there, pending):
        found.setdefault(part, {})[name] = local if is_pending else None
    return (found if any(pending) else {}), unsaved


def put(of: Mapping[str, Any], saved: Gradients) -> None:
    """Gives the parameters of the parts their gradients back; those without any lose what they had."""
    for part, name, parameter in _parameters(of):
        gradients = saved.get(part)
        if isinstance(gradients, dict):
            parameter.grad = _gradient(gradients[name], parameter) if name in gradients else None


def _mark(optimizer: Any, *_: Any) -> None:
    compiler: Any = getattr(sys.modules["torch"], "compiler", None)
    if hasattr(compiler, "is_compiling") and compiler.is_compiling():
        return  # unmarked ones are saved, which is never wrong
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            # Within the step of the user's own training, which it must never end.
            try:
                gradient = parameter.grad
                if gradient is not None:
                    inner = getattr(gradient, "_local_tensor", gradient)
                    setattr(inner, _MARK, inner._version)
            except Exception:  # such as an inference tensor, which has no version
                continue


def _parameters(of: Mapping[str, Any]) -> Iterator[Tuple[str, str, Any]]:
    """Part, name and parameter, each parameter once: modules know names, optimizers only numbers."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "nn"):
        return
    seen = set()
    bare = {str(name): parts.unwrapped(part) for name, part in of.items()}
    for part, module in bare.items():
        if isinstance(module, torch.nn.Module):
            for name, parameter in module.named_parameters():
                seen.add(id(parameter))
                yield part, name, parameter
    for part, optimizer in bare.items():
        groups = () if isinstance(optimizer, torch.nn.Module) else getattr(optimizer, "param_groups", None)
        of_groups = (parameter for group in groups or () for parameter in group["params"])
        for number, parameter in enumerate(of_groups):
            if id(parameter) not in seen and isinstance(parameter, torch.Tensor):
                seen.add(id(parameter))
                yield part, str(number), parameter


def _nonzero(tensors: List[Any]) -> List[bool]:
    """Whether each holds anything; an accelerator is waited for once and not for each tensor."""
    torch: Any = sys.modules.get("torch")
    answers = [False] * len(tensors)
    for device in {tensor.device for tensor in tensors}:
        numbers = [number for number, tensor in enumerate(tensors) if tensor.device == device]
        for number, answer in zip(numbers, torch.stack([tensors[at].any() for at in numbers]).tolist()):
            answers[number] = answer
    return answers


def _local(gradient: Any, parameter: Any) -> Any:
    """The tensor with what this rank has of a gradient; None if it cannot be saved."""
    torch: Any = sys.modules["torch"]
    if arrays.is_spread(gradient):
        is_alike = arrays.is_spread(parameter) and gradient.placements == parameter.placements
        return gradient.to_local() if is_alike else None
    is_plain = not hasattr(gradient, "__tensor_flatten__") and gradient.layout is torch.strided
    return gradient if is_plain and gradient.device.type != "meta" else None


def _gradient(saved: Any, parameter: Any) -> Any:
    torch: Any = sys.modules["torch"]
    if saved is None:
        return torch.zeros_like(parameter)
    local = parameter.to_local() if arrays.is_spread(parameter) else parameter
    if not isinstance(saved, torch.Tensor) or saved.shape != local.shape:
        return None  # its bytes are whole, and still it is not known what wrote them
    # A gradient has the memory layout of its parameter, wherever the library can choose.
    made = torch.empty_like(local, dtype=saved.dtype, requires_grad=False).copy_(saved)
    if not arrays.is_spread(parameter):
        return made
    spread: Any = sys.modules["torch.distributed.tensor"]
    return spread.DTensor.from_local(
        made,
        parameter.device_mesh,
        parameter.placements,
        run_check=False,
        shape=parameter.shape,
        stride=parameter.stride(),
    )
