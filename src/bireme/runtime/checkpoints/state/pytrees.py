"""How are JAX's pytrees saved and restored: by the path of each leaf, onto a tree of the same build.

A pytree may hold named tuples and classes of other libraries. They are not saved; the tree that is given to
`restore` has them, and only its leaves are replaced.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Mapping, Tuple

from . import comparison


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


def leaves(value: Any) -> Dict[str, Any]:
    """The leaves by their paths."""
    return dict(_leaves(value)[0])


def onto(name: str, template: Any, saved: Mapping[str, Any]) -> Any:
    """The template with the saved leaves, each on the device of the template's; Complaint if they differ."""
    here, structure = _leaves(template)
    comparison.refuse_differences(name, saved, dict(here))
    return sys.modules["jax"].tree_util.tree_unflatten(
        structure, [_placed(saved[key], leaf) for key, leaf in here]
    )


def _placed(value: Any, leaf: Any) -> Any:
    jax: Any = sys.modules["jax"]
    numpy: Any = sys.modules["numpy"]
    if isinstance(leaf, (jax.Array, jax.ShapeDtypeStruct)):
        sharding = getattr(leaf, "sharding", None)
        return jax.device_put(value, sharding) if sharding is not None else value
    if isinstance(leaf, numpy.ndarray):
        return numpy.asarray(value)
    return value


def _leaves(value: Any) -> Tuple[List[Tuple[str, Any]], Any]:
    tree: Any = sys.modules["jax"].tree_util
    found, structure = tree.tree_flatten_with_path(value)
    return [(tree.keystr(path) or "it", leaf) for path, leaf in found], structure
