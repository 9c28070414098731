"""On which device does this rank compute."""

from __future__ import annotations

import sys


def device(local_rank: int) -> str:
    """`cuda:N`, `mps` or `cpu`, as torch sees it; `cpu` where the script has not imported torch."""
    torch = sys.modules.get("torch")
    if torch is None:
        return "cpu"
    if torch.cuda.is_available():
        # A launcher that shows each rank its own device only leaves no other number than 0.
        return f"cuda:{local_rank % torch.cuda.device_count()}"
    backends = getattr(torch, "backends", None)
    mps = getattr(backends, "mps", None)
    if mps is not None and mps.is_available():
        return "mps"
    return "cpu"
