"""Reads numbers out of the values of any framework, without making the training loop wait for them.

A framework hands out a value before it is computed. A copy is started, and looked at again when the loop
comes by the next time. No framework is imported here: a script that has a value of one has imported it.
"""

from __future__ import annotations

import sys
from typing import Any, Optional  # Any: values of frameworks that need not be installed


class DeviceCopy:
    """A copy on its way to this machine's memory."""

    def ready(self) -> bool:
        """Says whether `result` would return at once."""
        raise NotImplementedError

    def result(self) -> Any:
        """Returns what lies in this machine's memory, and waits for it if need be."""
        raise NotImplementedError


def begun(value: Any) -> Optional[DeviceCopy]:
    """Starts a copy; None if the value is in this machine's memory already, or can only be waited for."""
    framework = type(value).__module__.partition(".")[0]
    try:
        if framework in ("jaxlib", "jax") and hasattr(value, "is_ready"):
            is_local = all(device.platform == "cpu" for device in value.devices())
            return None if value.is_ready() and is_local else _JaxCopy(value)
        if framework == "torch" and hasattr(value, "device") and value.device.type not in ("cpu", "meta"):
            return _TorchCopy(value.detach())
    except Exception:  # a device may lack streams, events or pinned memory, each in its own way
        return None
    return None


class _TorchCopy(DeviceCopy):
    def __init__(self, value: Any) -> None:
        torch: Any = sys.modules["torch"]
        device: Any = getattr(torch, value.device.type, None)
        # Only a copy into pinned memory does not block the loop; other devices see to that themselves.
        if value.device.type == "cuda":
            self._host = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
            self._host.copy_(value, non_blocking=True)
        else:
            self._host = value.to("cpu", non_blocking=True)
        self._event = device.Event() if device is not None and hasattr(device, "Event") else None
        if self._event is None:
            self._host = value.cpu()
        elif hasattr(device, "current_stream"):
            self._event.record(device.current_stream(value.device))
        else:
            self._event.record()

    def ready(self) -> bool:
        return self._event is None or bool(self._event.query())

    def result(self) -> Any:
        if self._event is not None:
            self._event.synchronize()
        return self._host


class _JaxCopy(DeviceCopy):
    def __init__(self, value: Any) -> None:
        self._value = value
        value.copy_to_host_async()

    def ready(self) -> bool:
        return bool(self._value.is_ready())

    def result(self) -> Any:
        return sys.modules["numpy"].asarray(self._value)


class NotANumber(Exception):
    """What a script reported is no number; the sentence says what it is."""


def number(value: Any) -> float:
    """Returns a plain number; a value in an accelerator is waited for."""
    try:
        if isinstance(value, (float, int)):
            return float(value)
        if hasattr(value, "detach"):
            value = value.detach()  # torch warns about a number that is taken out of a graph
        elif hasattr(value, "numpy") and not hasattr(value, "item"):
            value = value.numpy()  # TensorFlow
        if hasattr(value, "item"):
            shape = tuple(getattr(value, "shape", ()))
            if any(size != 1 for size in shape):
                raise NotANumber(f"it has the shape {list(shape)}; report its mean, or use a histogram")
            value = value.item()
        if isinstance(value, (str, bytes)) or not (
            hasattr(value, "__float__") or hasattr(value, "__index__")
        ):
            raise NotANumber(f"a {type(value).__name__} is not a number")
        return float(value)
    except NotANumber:
        raise
    except Exception as error:  # a conversion is the value's own code, and may raise anything
        raise NotANumber(f"this {type(value).__name__} is not a number: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
