"""Where does a copy of the state lie while it is written: memory that is kept from save to save.

Fresh memory is several times slower than used memory, because the kernel hands it out page by page.
"""

from __future__ import annotations

import mmap
import sys
from typing import Any


class Memory:
    """A buffer that grows and is never given back."""

    def __init__(self) -> None:
        self._buffer: Any = None  # a mapping, or a numpy array over pinned memory
        self._size = 0
        self._kind = ""

    def of(self, size: int, kind: str) -> Any:
        """At least so many bytes, `plain` or `pinned`, with whatever was in them before."""
        if size > self._size or kind != self._kind:
            self._buffer = None
            self._buffer = _pinned(size) if kind == "pinned" else _unforked(fresh(size))
            self._size, self._kind = size, kind
        return self._buffer


def fresh(size: int) -> mmap.mmap:
    """Zeroed memory of this process alone."""
    return mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _unforked(memory: mmap.mmap) -> mmap.mmap:
    if hasattr(mmap, "MADV_DONTFORK"):
        # A data loader's worker has no use for it, and would make each page of it dearer.
        memory.madvise(mmap.MADV_DONTFORK)
    return memory


def _pinned(size: int) -> Any:
    torch: Any = sys.modules["torch"]
    return torch.empty(max(size, 1), dtype=torch.uint8, pin_memory=True).numpy()
