"""Finds the GPUs of this machine, and those that processes of others use."""

from __future__ import annotations

import shutil
import subprocess

from msgspec import Struct

from bireme.core.machine.admission import Capacity
from bireme.runs import machine
from bireme.runs.machine import Accelerators

NAME = "nvidia.com/gpu"

_PATIENCE = 10.0


class Gpus(Struct, frozen=True):
    """The ids of all GPUs in order, and those in use by any process."""

    ids: tuple[str, ...] = ()
    busy: frozenset[str] = frozenset()


def find() -> Gpus:
    """Ask nvidia-smi; a machine without it has no GPUs."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return Gpus()
    listed = _ask(program, "--query-gpu=index,uuid")
    used = _ask(program, "--query-compute-apps=gpu_uuid,pid")
    return parse(listed, used)


def capacity() -> Capacity:
    """What this machine has to give, GPUs included."""
    found = find()
    if not found.ids:
        return machine.capacity(Accelerators())
    return machine.capacity(Accelerators({NAME: found.ids}, {NAME: tuple(sorted(found.busy))}))


def parse(listed: str, used: str) -> Gpus:
    """Read the two tables that nvidia-smi prints."""
    by_uuid = {}
    for line in listed.splitlines():
        index, _, uuid = (part.strip() for part in line.partition(","))
        if index.isdecimal() and uuid:
            by_uuid[uuid] = index
    busy = {by_uuid[uuid] for line in used.splitlines() if (uuid := line.split(",")[0].strip()) in by_uuid}
    return Gpus(tuple(by_uuid.values()), frozenset(busy))


def _ask(program: str, query: str) -> str:
    try:
        answer = subprocess.run(
            [program, query, "--format=csv,noheader"], capture_output=True, text=True, timeout=_PATIENCE
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout if answer.returncode == 0 else ""
