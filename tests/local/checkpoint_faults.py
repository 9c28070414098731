"""Damages checkpoints in every way, and checks what must hold afterwards: nothing wrong is ever restored."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bireme.runtime.checkpoints.manager import Checkpoints, Keep, Owner, Restored
from bireme.runtime.checkpoints.storage import checkpoint_format
from tests.local.checkpoint_processes import begun, ran, words

RANKS = 2
SIZE = 2 * checkpoint_format.BLOCK + 100_000

# The state of a step can be told from its number alone, so that whoever restores it can judge it.
SAVING = f"""
import random

def state(step, rank, size={SIZE}):
    noise = random.Random(step * 7 + rank).randbytes(1 << 16)
    return (noise * (size // len(noise) + 1))[:size]

def saved(checkpoints, step, rank):
    common = {{"step": step, "data": state(step, 0)}}
    checkpoints.save(step, {{"x": common}}, {{"mine": state(step, rank, 70_000)}}, {{}})
"""
FOREVER = (
    SAVING
    + """
rank = int(sys.argv[2])
checkpoints = opened("run", 0, rank, int(sys.argv[3]))
restored = checkpoints.restore({})
step = restored.step if restored else 0
while True:
    step += 1
    print("saving", step, flush=True)
    saved(checkpoints, step, rank)
    checkpoints.wait()
    print("saved", step, flush=True)
"""
)
LIMITED = (
    SAVING
    + """
import resource
checkpoints = opened()
saved(checkpoints, 1, 0)
for step, limit in enumerate(map(int, sys.argv[2:]), 2):
    checkpoints.wait()
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    saved(checkpoints, step, 0)
    checkpoints.wait()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    restored = checkpoints.restore({})
    expected = restored.values == {"x": {"step": restored.step, "data": state(restored.step, 0)}}
    print(step, restored.step, expected, flush=True)
checkpoints.close()
"""
)


def state(step: int, rank: int, size: int = SIZE) -> bytes:
    noise = random.Random(step * 7 + rank).randbytes(1 << 16)
    return (noise * (size // len(noise) + 1))[:size]


def restored(where: Path, heard: list[str] | None = None) -> int:
    """The step that all ranks restore, each byte of which is right; 0 if there is none."""
    steps = []
    for rank in range(RANKS):
        ears = heard if heard is not None else []
        checkpoints = Checkpoints(str(where), Owner("run", rank, RANKS), Keep(), ears.append)
        found: Restored | None = checkpoints.restore({})
        steps.append(found.step if found else 0)
        if found:
            assert found.values == {"x": {"step": found.step, "data": state(found.step, 0)}}
            assert found.own == {"mine": state(found.step, rank, 70_000)}
            assert found.name == checkpoint_format.name_of(found.step)
    assert len(set(steps)) == 1
    return steps[0]


def killed_while_saving(where: Path, chance: random.Random) -> tuple[int, int]:
    """Kills ranks that save without end at some instant; the last step saved, and the restored one."""
    processes = [begun(words(FOREVER, where, rank, RANKS)) for rank in range(RANKS)]
    first, second = chance.sample(processes, 2)
    try:
        before = _saved(processes[0], chance.randrange(1, 3))
        # A save takes some 50 ms here; the kill falls anywhere in it, or between two.
        try:
            first.wait(chance.uniform(0, 0.12))
        except subprocess.TimeoutExpired:
            first.kill()
        try:
            second.wait(chance.choice([0, 0.05]))
        except subprocess.TimeoutExpired:
            second.kill()
    finally:
        for one in processes:
            one.kill()
    for one in processes:
        assert one.stdout is not None
        # Not communicate(), which does not see what readline() has read ahead.
        left = one.stdout.read()
        one.communicate()
        if one is processes[0]:
            before = max([before, *_steps(left)])
    return before, restored(where)


def full_at(where: Path, limits: list[int]) -> Iterator[tuple[int, int, bool]]:
    """Saves with a limit on the size of files; the step saved, that restored, and whether it was right."""
    for line in ran(words(LIMITED, where, *limits)).splitlines():
        if not line.startswith("TOLD"):
            step, found, is_right = line.split()
            yield int(step), int(found), is_right == "True"


def two_checkpoints(where: Path) -> None:
    """Steps 1 and 2, saved by all ranks."""
    heard: list[str] = []
    gang = [Checkpoints(str(where), Owner("run", rank, RANKS), Keep(), heard.append) for rank in range(RANKS)]
    for step in (1, 2):
        for rank, one in enumerate(gang):
            one.save(
                step, {"x": {"step": step, "data": state(step, 0)}}, {"mine": state(step, rank, 70_000)}, {}
            )
    for one in gang:
        one.close()
    assert heard == []


def cuts(path: Path) -> list[int]:
    """Every block boundary of a file, the bytes around it, and its first and last ones."""
    size = path.stat().st_size
    places = {0, 1, size - 1, size // 2}
    for boundary in range(0, size, checkpoint_format.BLOCK):
        places |= {boundary - 1, boundary, boundary + 1}
    return sorted(place for place in places if 0 <= place < size)


def mixed(where: Path, file: str) -> None:
    """Puts a file of step 1 into step 2: whole, and not its own."""
    shutil.copyfile(where / checkpoint_format.name_of(1) / file, where / checkpoint_format.name_of(2) / file)


def _saved(process: subprocess.Popen[str], count: int) -> int:
    """Waits for so many steps to be saved; the last of them."""
    assert process.stdout is not None
    last = 0
    while count:
        line = process.stdout.readline()
        assert line, "a rank ended by itself"
        if line.startswith("saved"):
            last, count = int(line.split()[1]), count - 1
    return last


def _steps(text: str) -> list[int]:
    return [int(line.split()[1]) for line in text.splitlines() if line.startswith("saved")]
