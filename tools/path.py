"""Prints the way of one job through the tree, hop by hop, from real execution.

    python -m tools.path             `bireme run train.py --workers 2`: command, guard and runner
    python -m tools.path operator    a job that somebody creates in a cluster, in the operator

A hop is a file of ours that is on the stack when the way reaches its end. A return is a call from a later
file back into an earlier one that still waits: a reader would have to turn back. The operator works for the
API server of the simulation. `--src FOLDER` walks another tree (`run` only), so that two can be compared.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PROCESSES = ("command", "guard", "runner")
"""Each is a fork of the one before it."""
ENDS = {
    "command": ("runner.standby.start", "engine.guard.start"),
    "guard": (),
    "runner": ("backends.local.warm.launcher.launch", "backends.local.warm.launch"),
    "operator": ("engine.step.step", "backends.kubernetes.objects.pod_builder.pod"),
}
"""Where the way of each process ends: the functions that hand the job on, in this tree and in older ones.

The operator has two: its step starts a task for each request, and a task has a stack of its own.
"""

Report = Mapping[str, Any]  # Any: JSON has no better type


class Walk:
    """What one process of ours enters, in order, from the calls that the interpreter reports."""

    def __init__(self, folder: str, process: str) -> None:
        self._folder = folder
        self._begin(process)

    def _begin(self, process: str) -> None:
        self._process = process
        self._entered: dict[str, None] = {}
        self._hops: list[str] = []
        self._ends = set(ENDS[process])
        self._returns: dict[str, None] = {}

    def fork(self) -> None:
        """Be the walk of the next process."""
        self._begin(PROCESSES[min(PROCESSES.index(self._process) + 1, 2)])

    def note(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not (module := _module(frame)):
            return
        self._entered.setdefault(module)
        if not self._ends or (self._hops and self._process != "operator"):
            return
        hops = _hops(frame)
        end = f"{module}.{frame.f_code.co_name}"
        if end in self._ends:
            self._ends.remove(end)
            self._hops += hops
        elif module in hops[:-1]:
            self._returns.setdefault(f"{hops[-2]} calls {module}.{frame.f_code.co_qualname}")

    def write(self) -> None:
        loaded = [name for name in sys.modules if name.startswith("bireme.")]
        report = {
            "entered": list(self._entered),
            "hops": self._hops,
            "returns": list(self._returns),
            "loaded": [name for name in loaded if not hasattr(sys.modules[name], "__path__")],
        }
        Path(self._folder, self._process).write_text(json.dumps(report))


def _module(frame: FrameType) -> str:
    """The module of a function of ours, without `bireme.`; nothing for others, and while one is imported."""
    name = frame.f_globals.get("__name__") or ""
    is_ours = name.startswith("bireme.") and not frame.f_code.co_name.startswith("<")
    return name.removeprefix("bireme.") if is_ours else ""


def _hops(frame: FrameType | None) -> list[str]:
    """The files that wait on each other, the first one first; neighbours of one file are one hop."""
    found: list[str] = []
    while frame is not None:
        if (module := _module(frame)) and (not found or found[-1] != module):
            found.append(module)
        frame = frame.f_back
    return found[::-1]


def walk_run(folder: str) -> None:
    """Be `bireme run`, and report; the processes that it forks report when they end."""
    walk = Walk(folder, "command")
    leave = os._exit

    def leaving(status: int) -> None:
        walk.write()
        leave(status)

    os._exit = leaving  # type: ignore[assignment] # a forked process of ours ends with nothing else
    os.register_at_fork(after_in_child=walk.fork)
    atexit.register(walk.write)
    sys.setprofile(walk.note)
    sys.argv = ["bireme", "run", "train.py", "--workers", "2", "--cold"]
    runpy.run_module("bireme.cli", run_name="__main__")


def walk_operator(folder: str) -> None:
    """Let an operator make the pods of a job, before the API server of the simulation."""
    from tests.simulation.operator.scripted_cluster import WELL, Stage, play

    walk = Walk(folder, "operator")

    async def story(stage: Stage) -> None:
        stage.operator()
        stage.submit(workers=2)
        await stage.until(lambda: stage.running() == 2)

    sys.setprofile(walk.note)
    play(story, WELL)
    sys.setprofile(None)
    walk.write()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.path",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", nargs="?", choices=("run", "operator"), default="run")
    parser.add_argument("--src", default=str(ROOT / "src"), help="the tree to walk")
    parser.add_argument("--names", action="store_true", help="print every module that is loaded")
    asked = parser.parse_args()
    reports = walked(asked.what, asked.src)
    for process, report in reports.items():
        print(f"{process}: {len(report['loaded'])} modules loaded, {len(report['entered'])} entered")
        for number, hop in enumerate(report["hops"], 1):
            print(f"  {number:2}. {hop.replace('.', '/')}.py")
        for back in report["returns"] if report["hops"] else ():
            print(f"      return: {back}")
    loaded = sorted({name for report in reports.values() for name in report["loaded"]})
    entered = {name for report in reports.values() for name in report["entered"]}
    print(f"all together: {len(loaded)} modules loaded, {len(entered)} entered")
    if asked.names:
        print("\n".join(loaded))


def walked(what: str, src: str = str(ROOT / "src")) -> dict[str, Report]:
    """What each process reports of the way of one job."""
    with tempfile.TemporaryDirectory(prefix="bireme-path-") as folder:
        reports = Path(folder, "reports")
        reports.mkdir()
        Path(folder, "train.py").write_text("print('a line')\n")
        home = f"{folder}/home"
        env = {**os.environ, "PYTHONPATH": f"{src}:{ROOT}", "BIREME_HOME": home, "VIRTUAL_ENV": sys.prefix}
        program = f"from tools import path; path.walk_{what}({str(reports)!r})"
        subprocess.run(
            [sys.executable, "-c", program], cwd=folder, env=env, check=True, capture_output=True, timeout=120
        )
        order = [*PROCESSES, "operator"]
        paths = sorted(reports.iterdir(), key=lambda path: order.index(path.name))
        return {path.name: json.loads(path.read_text()) for path in paths}


if __name__ == "__main__":
    main()
