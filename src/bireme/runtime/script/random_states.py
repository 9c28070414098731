"""What do all random number generators of this process stand at, and how are they put back there.

Only libraries that the script has imported are asked. JAX has no hidden state; TensorFlow keeps its own in
`tf.random.Generator` objects, which can be saved like any other part.
"""

from __future__ import annotations

import random
import sys
from typing import Any, Dict

State = Dict[str, Any]
"""A plain tree; Any, because arrays and tensors are in it."""


def capture() -> State:
    """Reads the state of Python's, numpy's and torch's global generators."""
    version, numbers, gauss = random.getstate()
    state: State = {"python": {"version": version, "numbers": list(numbers), "gauss": gauss}}
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "random"):
        name, keys, position, has_gauss, cached = numpy.random.get_state()
        state["numpy"] = {"name": name, "keys": keys, "at": position, "has_gauss": has_gauss, "gauss": cached}
    torch = sys.modules.get("torch")
    if torch is not None:
        state["torch"] = torch.get_rng_state()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def put(state: State) -> None:
    """Sets the generators to a captured state; what it does not know of is left alone."""
    python = state["python"]
    random.setstate((python["version"], tuple(python["numbers"]), python["gauss"]))
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy" in state:
        saved = state["numpy"]
        numpy.random.set_state(
            (saved["name"], saved["keys"], saved["at"], saved["has_gauss"], saved["gauss"])
        )
    torch = sys.modules.get("torch")
    if torch is not None and "torch" in state:
        torch.set_rng_state(state["torch"])
        states = state.get("cuda", ())
        if states and torch.cuda.is_available() and torch.cuda.device_count() == len(states):
            torch.cuda.set_rng_state_all(states)
