"""How are many values counted into a histogram: lists, numpy arrays, tensors."""

from __future__ import annotations

import math
import sys
from typing import Any, Iterable, List, Tuple  # Any: values of frameworks that need not be installed

COUNT = 64
Buckets = Tuple[Tuple[int, ...], Tuple[float, ...]]


def counted(values: Any) -> Buckets:
    """Returns counts and edges; what is not finite is left out. Raises ValueError if nothing is left."""
    if hasattr(values, "detach"):
        return _of_torch(values.detach())
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and hasattr(values, "__array__"):
        return _of_numpy(numpy, numpy.asarray(values))
    return _of_numbers([float(value) for value in _flat(values)])


def _of_torch(values: Any) -> Buckets:
    values = values.flatten().to("cpu").double()
    values = values[values.isfinite()]
    if values.numel() == 0:
        raise ValueError("there is no finite value in it")
    low, high = _bounds(values.min().item(), values.max().item())
    # `histc` counts exactly as long as a double can count.
    counts = values.histc(COUNT, low, high).tolist()
    return tuple(int(count) for count in counts), _edges(low, high)


def _of_numpy(numpy: Any, values: Any) -> Buckets:
    values = values.astype("float64").ravel()
    values = values[numpy.isfinite(values)]
    if not values.size:
        raise ValueError("there is no finite value in it")
    low, high = _bounds(float(values.min()), float(values.max()))
    counts, _ = numpy.histogram(values, COUNT, (low, high))
    return tuple(counts.tolist()), _edges(low, high)


def _of_numbers(values: List[float]) -> Buckets:
    values = [value for value in values if math.isfinite(value)]
    if not values:
        raise ValueError("there is no finite value in it")
    low, high = _bounds(min(values), max(values))
    counts = [0] * COUNT
    scale = COUNT / (high - low)
    for value in values:
        counts[min(COUNT - 1, int((value - low) * scale))] += 1
    return tuple(counts), _edges(low, high)


def _bounds(low: float, high: float) -> Tuple[float, float]:
    """The outer edges; values that are all the same lie in the middle of a bucket of some width."""
    if not math.isfinite(high - low):
        raise ValueError("its values are too far apart")
    if (high - low) / COUNT > abs(high) * 1e-15:
        return low, high
    margin = max(0.5, abs(high) * 1e-6)
    return low - margin, high + margin


def _edges(low: float, high: float) -> Tuple[float, ...]:
    return (*(low + (high - low) * i / COUNT for i in range(COUNT)), high)


def _flat(values: Any) -> Iterable[Any]:
    if isinstance(values, (str, bytes, dict)) or not hasattr(values, "__iter__"):
        raise ValueError(f"a {type(values).__name__} is no list of numbers")
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _flat(value)
        else:
            yield value
