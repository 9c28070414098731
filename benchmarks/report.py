"""What does one reported number cost the training loop, beside TensorBoard's writer, tensorboardX and MLflow.

    python -m benchmarks.report [--rounds 9] [--count 20000]

Each contestant reports one number a step in a process of its own, all of them once a round. `loop` is the
time in the loop for each number, `kept` includes the end, when everything is on its way to the disk. Ours is
there as soon as the call returns; the others lose what waits in their queues when the process is killed. The
rivals are installed once, beside the environment and not into it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any  # Any: the rivals have no types, and need not be installed

from benchmarks.rounds import BIN

ROOT = Path(__file__).resolve().parent.parent
RIVALS = BIN.parent / "rivals"
PACKAGES = (
    "tensorboard==2.21.0",
    "tensorboardX==2.6.5",
    "mlflow-skinny==3.17.2",
    "sqlalchemy==2.1.8",
    "alembic==1.20.1",
)
GOAL = 3.0
"""Microseconds in the loop."""
SLOW = 100
"""So many times fewer numbers for those who need milliseconds for each."""

Report = Callable[[int, float], object]
End = Callable[[], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--contestant", choices=CONTESTANTS, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.contestant:
        _measure(chosen.contestant, chosen.count)
        return
    _install()
    results: dict[str, list[dict[str, float]]] = {name: [] for name in CONTESTANTS}
    for number in range(chosen.rounds):
        for name in CONTESTANTS:
            count = max(20, chosen.count // SLOW) if name.startswith("MLflow") else chosen.count
            results[name].append(_one(name, count))
            shown = "  ".join(f"{key} {value:.2f} µs" for key, value in results[name][-1].items())
            print(f"round {number + 1}/{chosen.rounds}  {name:<32} {shown}", flush=True)
    _conclude(results)


def _conclude(results: dict[str, list[dict[str, float]]]) -> None:
    medians = {
        name: {key: statistics.median(one[key] for one in each) for key in each[0]}
        for name, each in results.items()
    }
    ours = medians[OURS]
    print()
    for name, one in medians.items():
        ratio = one["loop"] / ours["loop"]
        print(f"{name:<34} loop {one['loop']:9.2f} µs   kept {one['kept']:9.2f} µs   {ratio:8.1f}x ours")
    verdict = "met" if ours["loop"] <= GOAL else "MISSED"
    print(f"\n{OURS}: {ours['loop']:.2f} µs for each number, goal {GOAL:g} {verdict}")


def _install() -> None:
    if (RIVALS / "tensorboardX").is_dir():
        return
    words = [
        str(BIN / "uv"),
        "pip",
        "install",
        "--quiet",
        "--python",
        sys.executable,
        "--target",
        str(RIVALS),
    ]
    subprocess.run([*words, *PACKAGES], check=True)


def _one(name: str, count: int) -> dict[str, float]:
    words = [sys.executable, "-m", "benchmarks.report", "--contestant", name, "--count", str(count)]
    env = {**os.environ, "PYTHONPATH": str(RIVALS), "PYTHONWARNINGS": "ignore", "GIT_PYTHON_REFRESH": "quiet"}
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} ended with {done.returncode}:\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _measure(name: str, count: int) -> None:
    values = [1.0 / (1 + step) for step in range(count)]
    with tempfile.TemporaryDirectory(prefix="bireme-bench-") as folder:
        report, end = CONTESTANTS[name](folder)
        for step in range(10):
            report(step, 1.0)
        began = time.perf_counter()
        for step, value in enumerate(values):
            report(step, value)
        looped = time.perf_counter()
        end()
        ended = time.perf_counter()
    print(json.dumps({"loop": (looped - began) / count * 1e6, "kept": (ended - began) / count * 1e6}))


def _bireme(folder: str) -> tuple[Report, End]:
    import bireme

    os.chdir(folder)
    run = bireme.init()
    return lambda step, value: run.report(step, loss=value), run.close


def _recorder(folder: str) -> tuple[Report, End]:
    from bireme.runtime.records.recorder import Recorder

    recorder = Recorder(folder, 0, 0, print)
    return lambda step, value: recorder.scalars(step, {"loss": value}), recorder.close


def _event_file_writer(folder: str) -> tuple[Report, End]:
    from tensorboard.compat.proto import event_pb2, summary_pb2  # type: ignore[import-untyped]
    from tensorboard.summary.writer.event_file_writer import EventFileWriter  # type: ignore[import-untyped]

    writer: Any = EventFileWriter(folder)

    def report(step: int, value: float) -> None:
        summary = summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag="loss", simple_value=value)])
        writer.add_event(event_pb2.Event(wall_time=time.time(), step=step, summary=summary))

    return report, writer.close


def _summary_writer(folder: str) -> tuple[Report, End]:
    from torch.utils.tensorboard import SummaryWriter

    writer: Any = SummaryWriter(folder)
    return lambda step, value: writer.add_scalar("loss", value, step), writer.close


def _tensorboardx(folder: str) -> tuple[Report, End]:
    from tensorboardX import SummaryWriter  # type: ignore[import-not-found]

    writer: Any = SummaryWriter(folder)
    return lambda step, value: writer.add_scalar("loss", value, step), writer.close


def _mlflow_files(folder: str) -> tuple[Report, End]:
    # It makes its default experiment only in a folder that it makes itself.
    return _mlflow((Path(folder) / "runs").as_uri())


def _mlflow_sqlite(folder: str) -> tuple[Report, End]:
    return _mlflow(f"sqlite:///{folder}/mlflow.db")


def _mlflow(uri: str) -> tuple[Report, End]:
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    import mlflow  # type: ignore[import-not-found]

    mlflow.set_tracking_uri(uri)
    mlflow.start_run()
    return lambda step, value: mlflow.log_metric("loss", value, step=step), mlflow.end_run


OURS = "Bireme run.report"
CONTESTANTS: dict[str, Callable[[str], tuple[Report, End]]] = {
    OURS: _bireme,
    "Bireme's recorder alone": _recorder,
    "TensorBoard EventFileWriter": _event_file_writer,
    "torch.utils.tensorboard": _summary_writer,
    "tensorboardX SummaryWriter": _tensorboardx,
    "MLflow, file store": _mlflow_files,
    "MLflow, SQLite store": _mlflow_sqlite,
}


if __name__ == "__main__":
    main()
