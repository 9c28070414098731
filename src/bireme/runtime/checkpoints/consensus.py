"""How do ranks that can talk agree on one checkpoint: rank 0 proposes, and all must be able to read it."""

from __future__ import annotations

import sys
from typing import Any, Optional

from .values import Owner


class Alone:
    """A rank that cannot talk to the others: all look at the same files and come to the same answer."""

    is_talking = False

    def hear(self, number: int) -> int:
        return number

    def agree(self, verdict: bool) -> bool:
        return verdict


class Group:
    """The ranks of torch's default process group."""

    is_talking = True

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        talks_by_gpu = torch.distributed.get_backend() == "nccl"
        self._device = f"cuda:{torch.cuda.current_device()}" if talks_by_gpu else "cpu"

    def hear(self, number: int) -> int:
        """What rank 0 says."""
        said = self._torch.tensor([number], dtype=self._torch.int64, device=self._device)
        self._torch.distributed.broadcast(said, 0)
        return int(said.item())

    def agree(self, verdict: bool) -> bool:
        """Whether all ranks say yes."""
        said = self._torch.tensor([int(verdict)], dtype=self._torch.int64, device=self._device)
        self._torch.distributed.all_reduce(said, self._torch.distributed.ReduceOp.MIN)
        return bool(said.item())


def gang(owner: Owner) -> Any:
    """The ranks that decide together: those of torch.distributed, if it is up and has all of them."""
    torch: Optional[Any] = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return Alone()
    if distributed.get_world_size() != owner.world_size or owner.world_size == 1:
        return Alone()
    return Group(torch)
