"""The reader of the mark that says whose checkpoints lie in a folder."""

from __future__ import annotations

import json
from pathlib import Path

from bireme.runtime.checkpoints import owning
from tests.fuzz.harness import Target
from tests.fuzz.mutating import DEPTH

DEEP = b"[" * DEPTH + b"]" * DEPTH


def owner_mark(folder: Path) -> Target:
    sample = json.dumps({"run": "mnist", "attempt": 1, "host": "here", "pid": 77}).encode()

    def read(data: bytes) -> None:
        (folder / "owner.json").write_bytes(data)
        owning.read(str(folder))

    return Target("owner mark", (sample,), read, (), (json.loads(sample),), corpus=(DEEP,))


TARGETS = (owner_mark,)
