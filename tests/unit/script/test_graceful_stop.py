"""Does a process that is asked to end do so: at once, or after a last checkpoint if it can save one?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bireme.runtime.checkpoints import manager

HEAD = """
import itertools, sys, time
import bireme
run = bireme.init(every=100)

def ready():
    print("ready", flush=True)
"""
ELSEWHERE = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}


def ended(folder: Path, script: str, environ: dict[str, str] | None = None) -> int:
    """Asks a script to end once it says that it is ready; answers its exit status."""
    process = subprocess.Popen(
        [sys.executable, "-c", HEAD + script],
        cwd=folder,
        env={**os.environ, **(environ or {}), "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.terminate()
        return process.wait(20)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def test_a_script_that_saves_nothing_ends_at_once(tmp_path: Path) -> None:
    script = """
for step, _ in run.steps(itertools.repeat(1)):
    run.report(step, loss=1.0)
    if step == 3: ready()
    time.sleep(0.01)
"""
    assert ended(tmp_path, script) == -signal.SIGTERM


def test_a_rank_that_is_alone_saves_the_step_that_it_is_at(tmp_path: Path) -> None:
    script = """
for step in itertools.count():
    run.save(step, count=step)
    if step == 99: ready()
    time.sleep(0.001)
"""
    assert ended(tmp_path, script) == 128 + signal.SIGTERM

    steps = [one.step for one in manager.listed(str(tmp_path / "bireme-runs" / "c" / "checkpoints"))]
    assert (steps[0], len(steps)) == (99, 2)


@pytest.mark.parametrize("begins", ["run.save(0, count=0)", "pass"])
def test_ranks_of_several_machines_end_without_a_last_checkpoint(tmp_path: Path, begins: str) -> None:
    script = f"""
{begins}
ready()
for step in itertools.count(1):
    {begins}
    time.sleep(0.01)
"""
    assert ended(tmp_path, script, ELSEWHERE) == -signal.SIGTERM


def test_a_script_that_looks_whether_it_should_end_answers_itself(tmp_path: Path) -> None:
    script = """
run.is_leaving
ready()
while not run.is_leaving:
    time.sleep(0.01)
sys.exit(7)
"""
    assert ended(tmp_path, script, ELSEWHERE) == 7
