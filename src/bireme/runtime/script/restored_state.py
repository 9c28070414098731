"""State that a rank continues with after `restore`: gradients, random states, position in the data."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional, Tuple

from ..checkpoints.values import Restored
from .complaints import Complaint
from .rank_env import RankEnv

if TYPE_CHECKING:
    from ..data.positions import Position

_NAME = "gradients"


class Accumulation:
    """The pending gradients of one rank."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._restored: Optional[Tuple[Mapping[str, Any], Any]] = None
        """The parts and their gradients, until the loop has begun: it may clear them once before."""
        self._has_told = False
        self._is_sure = False
        """Whether steps of optimizers were noticed before the step that is saved."""

    def watch(self) -> None:
        """Notices steps of optimizers from now on."""
        if "torch" in sys.modules:
            from ..checkpoints.state import gradients

            gradients.watch()
            self._is_sure = True

    def restored(self, parts: Mapping[str, Any], found: Restored, env: RankEnv) -> None:
        """Restores the gradients that were pending when the checkpoint was saved."""
        # Taken out, because what was restored stays in memory for as long as the run.
        saved, of_first = found.own.pop(_NAME, None), found.of_first.pop(_NAME, None)
        if not isinstance(saved or of_first, dict):
            return
        if found.world_size != env.world_size or not saved:
            if env.rank == 0:
                self._tell(
                    f"{found.name} was saved between two steps of the optimizer by {found.world_size} ranks: "
                    f"with {env.world_size} the gradients that were accumulated until then are left out"
                )
            return
        self._restored = (parts, saved)
        self._put(parts, saved)

    def restore_again(self) -> None:
        """The loop begins: what the script cleared since `restore`, as with zero_grad, is needed now."""
        if self._restored is not None:
            self._put(*self._restored)
            self._restored = None

    def forget(self) -> None:
        """The loop has made a step: the gradients are in use by now, or were not wanted."""
        self._restored = None

    def own(self, parts: Mapping[str, Any]) -> Dict[str, Any]:
        """What a rank saves of its pending gradients."""
        if "torch" not in sys.modules:
            return {}
        from ..checkpoints.state import gradients

        found, unsaved = gradients.capture(parts)
        if unsaved and self._is_sure and not self._has_told:
            self._has_told = True
            more = f" and {len(unsaved) - 1} more" if len(unsaved) > 1 else ""
            self._tell(
                f"the gradient of {unsaved[0]}{more} cannot be saved, so a run that is continued from here "
                "differs from one that was not interrupted; save after the optimizer's step"
            )
        return {_NAME: found} if found else {}

    def _put(self, parts: Mapping[str, Any], saved: Any) -> None:
        from ..checkpoints.state import gradients

        gradients.put(parts, saved)


def resume_position(
    found: Optional[Restored], env: RankEnv, seed: int, tell: Callable[[str], None]
) -> Position:
    """This rank's position in the data, as the checkpoint has it; the beginning without a checkpoint."""
    from ..data import positions  # here: a script without `steps` and `shard` does not pay for it

    if found is None:
        return positions.Position()
    state = found.own.get("position")
    if state:
        here = positions.position(state)
        before = found.own.get("seed")
        if before not in (None, seed) and here.is_within_an_epoch:
            tell(
                f"{found.name} was saved with seed={before}, and now it is {seed}: shuffled data continues in"
                f" another order, some of it twice or never; with seed={before} it continues exactly"
            )
        return here
    # There were fewer ranks then. All of them stood at the same position, unless each loader kept its own.
    state = found.of_first.get("position")
    here = positions.position(state) if state else positions.Position()
    if here.world == env.world_size:
        raise Complaint(
            f"checkpoint {found.name} does not have the position of the loader of rank {env.rank}",
            "every rank must call save; continue from another checkpoint, or start a new run",
        )
    return here


RandomState = Dict[str, Any]
"""A plain tree; Any, because arrays and tensors are in it."""


def capture_random() -> RandomState:
    """Reads the state of Python's, numpy's and torch's global generators."""
    version, numbers, gauss = random.getstate()
    state: RandomState = {"python": {"version": version, "numbers": list(numbers), "gauss": gauss}}
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


def restore_random(state: RandomState) -> None:
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
