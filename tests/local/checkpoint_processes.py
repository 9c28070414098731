"""Runs scripts that keep checkpoints: as processes of their own, which can be rejected and killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
PATIENCE = 120.0

# What every such script begins with: the folder is its first word.
OPENING = """
import os, sys
from bireme.runtime.checkpoints.manager import Checkpoints, Keep, Owner, listed
from bireme.runtime.script.complaints import Complaint

def tell(words):
    print("TOLD", words, flush=True)

def opened(run="run", attempt=0, rank=0, world=1, **keep):
    return Checkpoints(sys.argv[1], Owner(run, rank, world, attempt), Keep(**keep), tell)
"""


def words(script: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", OPENING + script, *map(str, arguments)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE)}


def ran(command: list[str]) -> str:
    """What a script prints when it is run to its good end."""
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def begun(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
