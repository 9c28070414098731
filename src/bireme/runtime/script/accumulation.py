"""What a script has accumulated since the last step of its optimizer, from a save until the next loop."""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from ..checkpoints.values import Restored
from .rank_env import RankEnv

_NAME = "gradients"


class Accumulation:
    """The pending gradients of one rank."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._came_back: Optional[Tuple[Mapping[str, Any], Any]] = None
        """The parts and their gradients, until the loop has begun: it may clear them once before."""
        self._has_told = False
        self._is_sure = False
        """Whether steps of optimizers were noticed before the step that is saved."""

    def watch(self) -> None:
        """From now on steps of optimizers are noticed."""
        if "torch" in sys.modules:
            from ..checkpoints.state import gradients

            gradients.watch()
            self._is_sure = True

    def came_back(self, parts: Mapping[str, Any], found: Restored, env: RankEnv) -> None:
        """A checkpoint was restored into the parts."""
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
        self._came_back = (parts, saved)
        self._put(parts, saved)

    def put_back(self) -> None:
        """The loop begins: what was cleared since `restore` is needed now."""
        if self._came_back is not None:
            self._put(*self._came_back)
            self._came_back = None

    def goes_on(self) -> None:
        """The loop has made a step, and what came back is in use, or was not wanted."""
        self._came_back = None

    def own(self, parts: Mapping[str, Any]) -> Dict[str, Any]:
        """What a rank saves of it as its own."""
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
