"""Which saves of this process worked: a run that ends well without its work on disk must say so."""

from __future__ import annotations

from typing import Optional


class Saves:
    """The saves of one rank, from the loop and from the thread that writes."""

    def __init__(self) -> None:
        self._good: Optional[int] = None
        self._failed = 0
        self._last = -1
        self._why = ""

    def worked(self, step: int) -> None:
        """A checkpoint of the step is there, saved by this process or before it."""
        self._good, self._failed = step, 0

    def failed(self, step: int, why: str) -> None:
        self._failed, self._last, self._why = self._failed + 1, step, why

    @property
    def lost(self) -> str:
        """What is not on disk, as a sentence without its subject; empty if all of it is."""
        if not self._failed:
            return ""
        what, which = "saved no checkpoint", "all"
        if self._good is not None:
            what, which = f"has no checkpoint after step {self._good}", "the last"
        if self._failed == 1:
            return f"{what}: the save of step {self._last} failed: {self._why}"
        return f"{what}: {which} {self._failed} saves failed, the last one of step {self._last}: {self._why}"
