"""Where in its data does a restored run go on."""

from __future__ import annotations

from typing import Callable, Optional

from ..checkpoints.values import Restored
from ..data import epoch_order
from ..data.epoch_order import Position
from .complaints import Complaint
from .rank_env import RankEnv


def position(found: Optional[Restored], env: RankEnv, seed: int, tell: Callable[[str], None]) -> Position:
    """This rank's place in the data, as the checkpoint knows it; the beginning without a checkpoint."""
    if found is None:
        return Position()
    state = found.own.get("position")
    if state:
        here = epoch_order.position(state)
        _warn_of_another_order(found, here, seed, tell)
        return here
    # There were fewer ranks then. All of them stood at the same place, unless each loader kept its own.
    state = found.of_first.get("position")
    here = epoch_order.position(state) if state else Position()
    if here.world == env.world_size:
        raise Complaint(
            f"checkpoint {found.name} does not know where the loader of rank {env.rank} was",
            "every rank must call save; go on from another checkpoint, or start a new run",
        )
    return here


def _warn_of_another_order(found: Restored, here: Position, seed: int, tell: Callable[[str], None]) -> None:
    before = found.own.get("seed")
    if before not in (None, seed) and here.is_within_an_epoch:
        tell(
            f"{found.name} was saved with seed={before}, and now it is {seed}: what is shuffled goes on in"
            f" another order, some of it twice or never; seed={before} goes on exactly"
        )
