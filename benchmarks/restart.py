"""How soon does training go on after a rank was killed: from the kill to the next step done by both ranks.

    python -m benchmarks.restart [--rounds 7] [--ours 50]

The rival is torchrun --max-restarts of the same torch. Its restarts with gloo often fail, because its store
keeps the addresses of the attempt before; only its clean ones are timed, and how many those were is printed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.launch import _wait_until_warm
from benchmarks.rounds import BIN, environment, ratio_line

SCRIPT = str(Path(__file__).with_name("steps.py"))
STEPS = "150"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ours", type=int, default=50)
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bireme-bench-"))
    env = environment(folder / "home", MARKS=str(folder / "marks"))
    rival = [str(BIN / "torchrun"), "--nproc-per-node", "2", "--max-restarts", "3"]
    ours = [str(BIN / "bireme"), "run", SCRIPT, "--workers", "2", "--", STEPS]
    theirs: list[float] = []
    mine: list[float] = []
    tries = clean = 0
    try:
        subprocess.run(ours, env=env, capture_output=True, check=True)
        _wait_until_warm(env)
        for number in range(chosen.ours):
            took = _killed(ours, env, folder)
            if took is not None:
                mine.append(took)
            print(f"ours {number + 1}: {'lost' if took is None else f'{took * 1000:.0f} ms'}", flush=True)
            while (
                len(theirs) < chosen.rounds and tries < 4 * chosen.rounds and number * chosen.rounds >= tries
            ):
                tries += 1
                took = _killed([*rival, "--master-port", str(29600 + tries), SCRIPT, STEPS], env, folder)
                clean += took is not None
                theirs += [] if took is None else [took]
                print(
                    f"torchrun {tries}: {'not clean' if took is None else f'{took * 1000:.0f} ms'}",
                    flush=True,
                )
                break
    finally:
        subprocess.run([str(BIN / "bireme"), "doctor", "--end-warm"], env=env, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\nclean restarts: ours {len(mine)} of {chosen.ours}, torchrun {clean} of {tries}")
    if theirs and mine:
        print(
            ratio_line("killed rank to next step", statistics.median(theirs), statistics.median(mine), 15.0)
        )


def _killed(words: list[str], env: dict[str, str], folder: Path) -> float | None:
    """Run, kill rank 1 in its stride, and answer the seconds to the next step of both; None if it failed."""
    for path in folder.glob("marks.*"):
        path.unlink()
    process = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        victim = _await_stride(folder / "marks.1", process)
        killed = time.time()
        os.kill(victim, signal.SIGKILL)
        try:
            code = process.wait(timeout=90)
        except subprocess.TimeoutExpired:
            return None
        firsts = [_first_step_after(folder / f"marks.{rank}", killed) for rank in (0, 1)]
        return None if code or None in firsts else max(one for one in firsts if one is not None) - killed
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(timeout=60)


def _await_stride(path: Path, process: subprocess.Popen[bytes]) -> int:
    while process.poll() is None:
        lines = path.read_text().splitlines() if path.exists() else []
        if len(lines) > 30:
            return int(lines[0].split()[1])
        time.sleep(0.01)
    raise SystemExit(f"the training ended with {process.returncode} before it could be disturbed")


def _first_step_after(path: Path, killed: float) -> float | None:
    lines = [line.split() for line in path.read_text().splitlines()]
    later = [float(one[1]) for one in lines if one[0] == "step" and one[2] != "0"]
    return min((at for at in later if at > killed), default=None)


if __name__ == "__main__":
    main()
