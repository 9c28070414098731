"""Lets the threads of torch finish what they do before a process group goes.

A thread of Gloo drops its last references to tensors after a collective has ended, and needs the lock of the
interpreter for it. When the last owner of the group goes, torch waits for that thread and holds the lock: if
both happen within milliseconds, neither ends. A fresh interpreter is hardly ever that fast; a forked rank is.
"""

from __future__ import annotations

import functools
import sys
import time
from typing import Any

_MODULES = ("torch.distributed.distributed_c10d", "torch.distributed")
_NAME = "destroy_process_group"
_PAUSE = 0.15
"""Seconds; a thread that can run needs far less."""


def give_way() -> None:
    """Has `destroy_process_group` of a loaded torch give the lock away for a moment first."""
    loaded = [sys.modules[name] for name in _MODULES if name in sys.modules]
    plain: Any = getattr(loaded[0], _NAME, None) if loaded else None  # Any: a function of a third party
    if plain is None:
        return

    @functools.wraps(plain)
    def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
        time.sleep(_PAUSE)
        return plain(*args, **kwargs)

    for module in loaded:
        if getattr(module, _NAME, None) is plain:
            setattr(module, _NAME, destroy_process_group)
