"""Which number is meant by what a script reports: its own kinds, and scalars of any framework."""

from __future__ import annotations

from typing import Any  # Any: values of frameworks that need not be installed


class NotANumber(Exception):
    """What a script reported is no number; the sentence says what it is."""


def number(value: Any) -> float:
    """Returns a plain number; a value in an accelerator is waited for."""
    try:
        if isinstance(value, (float, int)):
            return float(value)
        value = _unwrapped(value)
        if isinstance(value, (str, bytes)) or not (
            hasattr(value, "__float__") or hasattr(value, "__index__")
        ):
            raise NotANumber(f"a {type(value).__name__} is not a number")
        return float(value)
    except NotANumber:
        raise
    except Exception as error:  # a conversion is the value's own code, and may raise anything
        raise NotANumber(f"this {type(value).__name__} is not a number: {_first_line(error)}") from error


def _unwrapped(value: Any) -> Any:
    """Takes the one number out of a tensor or an array."""
    if hasattr(value, "detach"):
        value = value.detach()  # torch warns about a number that is taken out of a graph
    elif hasattr(value, "numpy") and not hasattr(value, "item"):
        value = value.numpy()  # TensorFlow
    if not hasattr(value, "item"):
        return value
    shape = tuple(getattr(value, "shape", ()))
    if any(size != 1 for size in shape):
        raise NotANumber(f"it has the shape {list(shape)}; report its mean, or use a histogram")
    return value.item()


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
