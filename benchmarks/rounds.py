"""How is a comparison measured: commands run in turn, their marks read, medians and ratios printed."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

BIN = Path(sys.executable).parent
PATIENCE = 300.0
_SETTLE = 1.0
"""Seconds between two commands: what one of them leaves to end must not run into the next."""


def environment(home: Path, **more: str) -> dict[str, str]:
    """The caller's environment, with our home and the interpreter of this one."""
    path = os.pathsep.join([str(BIN), os.environ.get("PATH", "")])
    return {**os.environ, "BIREME_HOME": str(home), "VIRTUAL_ENV": str(BIN.parent), "PATH": path, **more}


def timed(words: list[str], env: Mapping[str, str], marks: Path) -> dict[str, float]:
    """Run a command and answer when each mark was first made, in seconds after the command's exec."""
    marks.unlink(missing_ok=True)
    began = time.time()
    done = subprocess.run(
        words, env={**env, "MARKS": str(marks)}, capture_output=True, text=True, timeout=PATIENCE
    )
    ended = time.time()
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    first: dict[str, float] = {"end": ended - began}
    for line in marks.read_text().splitlines():
        name, _, at = line.partition(" ")
        first[name] = min(first.get(name, float("inf")), float(at) - began)
    return first


def interleaved(
    rounds: int, ways: Mapping[str, Callable[[], dict[str, float]]]
) -> dict[str, list[dict[str, float]]]:
    """Take each way once a round, so that a slow minute of the machine hits all of them."""
    results: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for number in range(rounds):
        for name, way in ways.items():
            time.sleep(_SETTLE)
            results[name].append(way())
            shown = "  ".join(f"{key} {value * 1000:.0f} ms" for key, value in results[name][-1].items())
            print(f"round {number + 1}/{rounds}  {name:<24} {shown}", flush=True)
    return results


def median(results: list[dict[str, float]], key: str) -> float:
    return statistics.median(one[key] for one in results)


def ratio_line(what: str, rival: float, ours: float, goal: float) -> str:
    ratio = rival / ours
    verdict = "met" if ratio >= goal else "MISSED"
    return f"{what:<44} rival {rival:8.3f} s   ours {ours:8.3f} s   {ratio:6.1f}x   goal {goal:g}x {verdict}"
