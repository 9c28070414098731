"""The reader of the mark that says whose checkpoints lie in a place."""

from __future__ import annotations

import json
from pathlib import Path

from bireme.runtime.checkpoints.storage import owner_marks
from bireme.runtime.checkpoints.values import Owner
from tests.fuzz.harness import Target
from tests.fuzz.mutating import DEPTH

DEEP = b"[" * DEPTH + b"]" * DEPTH
OWNER = Owner(run="mnist", attempt=1, rank=0, world_size=2)


def owner_mark(folder: Path) -> Target:
    sample = owner_marks.write(owner_marks.made(OWNER, generation=1, period=2.0))
    legacy = json.dumps({"run": "mnist", "attempt": 1, "host": "here", "pid": 77}).encode()

    def read(data: bytes) -> None:
        mark = owner_marks.read(data)
        owner_marks.judge(mark, OWNER, is_meant=True, is_dead=owner_marks.is_dead(mark))
        f"{mark.shown_run} {mark.shown_process}".encode()

    trees = (json.loads(sample), json.loads(legacy))
    return Target("owner mark", (sample, legacy), read, (owner_marks.Malformed,), trees, corpus=(DEEP,))


TARGETS = (owner_mark,)
