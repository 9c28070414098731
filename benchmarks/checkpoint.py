"""How long does saving stop the training loop, and how long until it is on disk.

    python -m benchmarks.checkpoint [--rounds 5] [--megabytes 10 100 1000]

The state is a model and its AdamW. Every contestant saves it some times in a process of its own, all of them
once a round. `first` is the loop's stall at the first save, `stall` at the later ones, `total` is the time
until a later one is written. All keep the one before until then: a kill would cost whoever overwrites it all
of its work. torch.save stops the loop for all of it, and does not wait for the disk, as the others do. Last
comes what `run.save` costs a step at which nothing is due.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any  # Any: torch is not seen by the type checker

ROOT = Path(__file__).resolve().parent.parent
OURS = "bireme"
RIVAL = "dcp.async_save"
SAVES = 4
IDLE_STEPS = 20_000
GOAL_IDLE = 20.0
"""Microseconds for a step at which nothing is saved."""

Save = Callable[[int], Callable[[], object]]
"""Saves a step, and answers what waits until it is written."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--folder", help="where to write (default: the temporary folder)")
    parser.add_argument("--contestant", choices=[*CONTESTANTS, "idle"], help=argparse.SUPPRESS)
    chosen, _ = parser.parse_known_args()
    if chosen.contestant:
        measured = (
            _idle() if chosen.contestant == "idle" else _measured(chosen.contestant, chosen.megabytes[0])
        )
        print("MEASURED", json.dumps(measured))
        return
    for size in chosen.megabytes:
        _compare(size, chosen.rounds, chosen.folder)
    idle = statistics.median(_one("idle", 1, chosen.folder)["idle"] for _ in range(chosen.rounds))
    verdict = "met" if idle <= GOAL_IDLE else "MISSED"
    print(f"\nrun.save when nothing is due: {idle:.2f} µs a step, goal {GOAL_IDLE:g} {verdict}")


def _compare(size: int, rounds: int, folder: str | None) -> None:
    results: dict[str, list[dict[str, float]]] = {name: [] for name in CONTESTANTS}
    for number in range(rounds):
        for name in CONTESTANTS:
            results[name].append(_one(name, size, folder))
            shown = "  ".join(f"{key} {value:.1f} ms" for key, value in results[name][-1].items())
            print(f"round {number + 1}/{rounds}  {size} MB  {name:<24} {shown}", flush=True)
    medians = {
        name: {key: statistics.median(one[key] for one in each) for key in each[0]}
        for name, each in results.items()
    }
    print()
    for name, one in medians.items():
        shown = "   ".join(f"{key} {value:8.1f} ms" for key, value in one.items())
        print(f"{size:5} MB  {name:<24} {shown}   stall {one['stall'] / medians[OURS]['stall']:6.2f}x ours")
    # The rival is whichever of its two ways stops the loop for less.
    best = min(one["stall"] for name, one in medians.items() if name.startswith(RIVAL))
    verdict = "met" if medians[OURS]["stall"] <= best else "MISSED"
    print(
        f"{size:5} MB  our stall is {medians[OURS]['stall'] / best:.2f} of {RIVAL}'s, goal 1 {verdict}\n",
        flush=True,
    )


def _one(contestant: str, size: int, folder: str | None) -> dict[str, float]:
    place = tempfile.mkdtemp(prefix="bireme-bench-", dir=folder)
    words = [
        sys.executable,
        "-m",
        "benchmarks.checkpoint",
        "--contestant",
        contestant,
        "--megabytes",
        str(size),
    ]
    try:
        done = subprocess.run(
            [*words, "--folder", place], cwd=ROOT, capture_output=True, text=True, timeout=900
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith("MEASURED ")]
        if done.returncode or not lines:
            raise SystemExit(f"{contestant} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        answer: dict[str, float] = json.loads(lines[0].partition(" ")[2])
        return answer
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _measured(contestant: str, size: int) -> dict[str, float]:
    """Milliseconds, in this process."""
    save = CONTESTANTS[contestant](_state(size), Path(_folder()))
    stalls, totals = [], []
    for step in range(SAVES):
        began = time.perf_counter()
        wait = save(step)
        stalls.append(time.perf_counter() - began)
        wait()
        totals.append(time.perf_counter() - began)
    later = slice(1, None)
    return {
        "first": stalls[0] * 1000,
        "stall": statistics.median(stalls[later]) * 1000,
        "total": statistics.median(totals[later]) * 1000,
    }


def _state(size: int) -> dict[str, Any]:
    """A model of some layers and its optimizer, of so many megabytes together."""
    import torch

    numbers = size * 1_000_000 // 4 // 3  # the optimizer has two for each of the model's
    width = int((numbers / 12) ** 0.5)
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(12)))
    optimizer = torch.optim.AdamW(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    optimizer.zero_grad()
    return {"model": model, "optimizer": optimizer}


def _bireme(state: dict[str, Any], folder: Path) -> Save:
    from bireme.runtime.checkpoints.manager import Checkpoints, Keep, Owner

    checkpoints = Checkpoints(str(folder), Owner("bench"), Keep(last=1), print)

    def save(step: int) -> Callable[[], object]:
        checkpoints.save(step, state, {}, {})
        return checkpoints.wait

    return save


def _torch_save(state: dict[str, Any], folder: Path) -> Save:
    import torch

    def save(step: int) -> Callable[[], object]:
        torch.save(_dicts(state), folder / f"state-{step}.pt")
        (folder / f"state-{step - 1}.pt").unlink(missing_ok=True)
        return int

    return save


def _async_save(state: dict[str, Any], folder: Path) -> Save:
    checkpoint: Any = _distributed(folder)

    def save(step: int) -> Callable[[], object]:
        future: Any = checkpoint.async_save(_dicts(state), checkpoint_id=str(folder / f"dcp-{step}"))
        return lambda: _ended(future, folder, step)

    return save


def _async_save_reusing(state: dict[str, Any], folder: Path) -> Save:
    """With memory that is kept from save to save, as ours."""
    checkpoint: Any = _distributed(folder)
    staging: Any = importlib.import_module("torch.distributed.checkpoint.staging")
    # Without a GPU there is no pinned memory; the other settings are its defaults or quicker.
    options = staging.StagingOptions(
        use_pinned_memory=False, use_shared_memory=True, use_async_staging=False, use_non_blocking_copy=False
    )
    stager = staging.DefaultStager(options)

    def save(step: int) -> Callable[[], object]:
        future: Any = checkpoint.async_save(
            _dicts(state), checkpoint_id=str(folder / f"dcp-{step}"), async_stager=stager
        )
        return lambda: _ended(future, folder, step)

    return save


def _ended(future: Any, folder: Path, step: int) -> None:
    future.result()
    shutil.rmtree(folder / f"dcp-{step - 1}", ignore_errors=True)


def _distributed(folder: Path) -> Any:
    import torch.distributed.checkpoint

    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=0, world_size=1)
    return torch.distributed.checkpoint


def _dicts(state: dict[str, Any]) -> dict[str, Any]:
    return {name: part.state_dict() for name, part in state.items()}


def _idle() -> dict[str, float]:
    """Microseconds that `run.save` takes when it is not time to save."""
    import bireme

    state = _state(1)
    os.chdir(_folder())  # where a run leaves its records without a launcher
    with bireme.init(checkpoints="kept", every=10**9) as run:
        began = time.perf_counter()
        for step in range(1, IDLE_STEPS + 1):
            run.save(step, **state)
        return {"idle": (time.perf_counter() - began) / IDLE_STEPS * 1e6}


def _folder() -> str:
    return sys.argv[sys.argv.index("--folder") + 1]


CONTESTANTS: dict[str, Callable[[dict[str, Any], Path], Save]] = {
    OURS: _bireme,
    "torch.save": _torch_save,
    RIVAL: _async_save,
    f"{RIVAL}, reusing": _async_save_reusing,
}


if __name__ == "__main__":
    main()
