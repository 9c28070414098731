"""Counts many values into a histogram: lists, numpy arrays, tensors."""

from __future__ import annotations

import math
import sys
from typing import Any, Iterable, Tuple  # Any: values of frameworks that need not be installed

COUNT = 64
_NOTHING_FINITE = "there is no finite value in it"
Buckets = Tuple[Tuple[int, ...], Tuple[float, ...]]


def counted(values: Any) -> Buckets:
    """Returns counts and edges; what is not finite is left out. Raises ValueError if nothing is left."""
    numpy: Any = sys.modules.get("numpy")
    if hasattr(values, "detach"):
        values = values.detach().flatten().to("cpu").double()
        values = values[values.isfinite()]
        if values.numel() == 0:
            raise ValueError(_NOTHING_FINITE)
        low, high = _bounds(values.min().item(), values.max().item())
        # `histc` counts exactly as long as a double can count.
        counts = [int(count) for count in values.histc(COUNT, low, high).tolist()]
    elif numpy is not None and hasattr(values, "__array__"):
        values = numpy.asarray(values).astype("float64").ravel()
        values = values[numpy.isfinite(values)]
        if not values.size:
            raise ValueError(_NOTHING_FINITE)
        low, high = _bounds(float(values.min()), float(values.max()))
        counts = numpy.histogram(values, COUNT, (low, high))[0].tolist()
    else:
        numbers = [number for number in map(float, _flat(values)) if math.isfinite(number)]
        if not numbers:
            raise ValueError(_NOTHING_FINITE)
        low, high = _bounds(min(numbers), max(numbers))
        counts = [0] * COUNT
        scale = COUNT / (high - low)
        for number in numbers:
            counts[min(COUNT - 1, int((number - low) * scale))] += 1
    # The last edge is `high` itself: computed like the others it could lie below the largest value.
    return tuple(counts), (*(low + (high - low) * i / COUNT for i in range(COUNT)), high)


def _bounds(low: float, high: float) -> Tuple[float, float]:
    """The outer edges; values that are all the same lie in the middle of a bucket of some width."""
    if not math.isfinite(high - low):
        raise ValueError("its values are too far apart")
    if (high - low) / COUNT > abs(high) * 1e-15:
        return low, high
    margin = max(0.5, abs(high) * 1e-6)
    return low - margin, high + margin


def _flat(values: Any) -> Iterable[Any]:
    if isinstance(values, (str, bytes, dict)) or not hasattr(values, "__iter__"):
        raise ValueError(f"a {type(values).__name__} is not a list of numbers")
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _flat(value)
        else:
            yield value
