"""Which random numbers does code see that reads data, so that it sees the same ones after a restart.

Only libraries that the script has imported are touched, and only their generators of the processor: those of
accelerators belong to the training loop.
"""

from __future__ import annotations

import random
import sys
from typing import Any, Callable, Dict, Iterator, TypeVar, Union

from .epoch_order import derived

Item = TypeVar("Item")


def seed(*parts: Union[int, str]) -> None:
    """Sets the global generators of Python, numpy and torch from the parts, each to numbers of its own."""
    random.seed(derived(*parts, "python"))
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed(derived(*parts, "numpy") % 2**32)
    torch = sys.modules.get("torch")
    if torch is not None:
        # Not torch.manual_seed: where CUDA is asleep, that notes each call for later, for ever.
        torch.default_generator.manual_seed(derived(*parts, "torch") % 2**63)


def apart(items: Iterator[Item]) -> Iterator[Item]:
    """Gives an iterator random generators of its own: what it draws or seeds, nobody else notices."""
    within = _captured()
    while True:
        outside = _captured()
        _put(within)
        try:
            item = next(items)
        except StopIteration:
            return
        finally:
            within = _captured()
            _put(outside)
        yield item


State = Dict[str, Callable[[], None]]
"""How each library's generator is put back."""


def _captured() -> State:
    python = random.getstate()
    state: State = {"python": lambda: random.setstate(python)}
    numpy: Any = sys.modules.get("numpy.random")  # Any: imported by the script, never here
    if numpy is not None:
        of_numpy = numpy.get_state()
        state["numpy"] = lambda: numpy.set_state(of_numpy)
    torch: Any = sys.modules.get("torch")  # Any: as above
    if torch is not None:
        of_torch = torch.get_rng_state()
        state["torch"] = lambda: torch.set_rng_state(of_torch)
    return state


def _put(state: State) -> None:
    for put_back in state.values():
        put_back()
