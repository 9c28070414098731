"""What the tests of checkpoints share: a place to keep them, and ears for what is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bireme.runtime.checkpoints.manager import Checkpoints, Keep, Owner


class Heard(list[str]):
    """Remembers what it is told."""

    def __call__(self, words: str) -> None:
        self.append(words)


@contextmanager
def keeping(
    where: Path, heard: Heard | None = None, keep: Keep | None = None, owner: Owner | None = None
) -> Iterator[Checkpoints]:
    ears = Heard() if heard is None else heard
    made = Checkpoints(str(where), owner or Owner("run"), keep or Keep(), ears)
    try:
        yield made
    finally:
        made.close()
