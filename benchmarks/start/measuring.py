"""How long does one job take: to its first step, and from a killed rank to the next one."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tools.testcluster.processes import until

from benchmarks.start import manifests
from benchmarks.start.fields import Field

PATIENCE = 180.0
STRIDE = 20
"""Steps after which a job is disturbed."""
SILENCE = 0.5
"""Seconds without a step after which an attempt is over; no contestant restarts it sooner."""
SOCKETS = "reduce.py"


def first_step(field: Field, name: str, pods: int, script: str = SOCKETS) -> float:
    """Seconds from `kubectl create` to the first all-reduce that every rank has seen."""
    marks = _empty(field)
    manifest = manifests.job(name, pods, script, field.folder)
    began = time.time()
    field.create(manifest)
    return _all_stepped(marks, pods, after=began) - began


def after_kill(field: Field, pods: int) -> float:
    """Seconds from the death of a rank's process to the next all-reduce that every rank has seen."""
    victim = _process(SOCKETS, rank=1)
    return _recovery(field, pods, lambda: os.kill(victim, signal.SIGKILL))


def after_loss(field: Field, name: str, pods: int, role: str) -> float:
    """Seconds from the sudden removal of a pod to the next all-reduce that every rank has seen."""
    pod = f"/api/v1/namespaces/default/pods/{name}-{role}-0"

    def lose() -> None:
        field.line.call("DELETE", pod, {"gracePeriodSeconds": 0})

    return _recovery(field, pods, lose)


def after_power_cut(field: Field, name: str, pods: int, patience: float) -> float:
    """Seconds from the power cut of the worker's node to the next all-reduce; infinite if none comes."""
    node = field.node_of(f"{name}-worker-0")
    if node == field.node_of(f"{name}-master-0"):
        raise SystemExit(f"both pods of {name} are on {node}")
    try:
        return _recovery(field, pods, lambda: field.cut_power(node), patience)
    except TooLong:
        return float("inf")
    finally:
        field.give_power(node)


class TooLong(SystemExit):
    """What was waited for did not come."""


def _recovery(field: Field, pods: int, disturb: Callable[[], None], patience: float = PATIENCE) -> float:
    marks = field.folder / "marks"
    before = len(_steps(marks / "1"))
    if not until(lambda: len(_steps(marks / "1")) > before + STRIDE, PATIENCE):
        raise SystemExit("the job did not come into its stride")
    began = time.time()
    disturb()
    # The others may step once more; whoever steps after a pause longer than any step is in the next attempt.
    return _all_stepped(marks, pods, _last_step(marks, began), patience) - began


def _last_step(marks: Path, began: float) -> float:
    """When the disturbed attempt made its last step, once it is over."""
    last = began
    while (latest := max(_steps(marks / "0") + _steps(marks / "1"), default=began)) > last or (
        time.time() < max(last, began) + SILENCE
    ):
        last = max(last, latest)
        time.sleep(0.02)
    return last


def _all_stepped(marks: Path, pods: int, after: float, patience: float = PATIENCE) -> float:
    def firsts() -> list[float]:
        found = [next((at for at in _steps(marks / str(rank)) if at > after), None) for rank in range(pods)]
        return [one for one in found if one is not None]

    if not until(lambda: len(firsts()) == pods, patience):
        raise TooLong(f"only {len(firsts())} of {pods} ranks made a step within {patience:.0f} s")
    return max(firsts())


def _steps(path: Path) -> list[float]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [float(line.split()[1]) for line in lines if line.startswith("step ")]


def _empty(field: Field) -> Path:
    marks = field.folder / "marks"
    for one in marks.iterdir():
        one.unlink()
    return marks


def _process(script: str, rank: int) -> int:
    """The rank's process as this machine sees it; inside its container it could not be killed."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            environment = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"/bench/{script}".encode() in words and f"RANK={rank}".encode() in environment:
            return int(entry.name)
    raise SystemExit(f"rank {rank} has no process")
