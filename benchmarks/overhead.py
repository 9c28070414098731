"""Does Bireme slow a training down, and what do its own processes use meanwhile.

    python -m benchmarks.overhead [--rounds 9]

Throughput is compared in pairs, torchrun and Bireme in turn; the ratio's 95 % interval should hold 1.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.rounds import BIN, environment

SCRIPT = str(Path(__file__).with_name("train.py"))
_TICKS = os.sysconf("SC_CLK_TCK")
# Student's t for 95 %, two-sided, by degrees of freedom.
_T = {4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228, 14: 2.145, 19: 2.093}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", default="400")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bireme-bench-"))
    marks = folder / "marks"
    env = environment(folder / "home", MARKS=str(marks), OMP_NUM_THREADS="1")
    rival = [str(BIN / "torchrun"), "--nproc-per-node", "2", "--master-port", "29555", SCRIPT, chosen.steps]
    ours = [str(BIN / "bireme"), "run", SCRIPT, "--workers", "2", "--cold", "--", chosen.steps]
    ratios, shares = [], []
    try:
        for number in range(chosen.rounds):
            theirs, _ = _throughput(rival, env, marks, folder)
            mine, share = _throughput(ours, env, marks, folder)
            ratios.append(mine / theirs)
            shares.append(share)
            print(
                f"round {number + 1}: torchrun {theirs:.1f} steps/s, ours {mine:.1f} steps/s, "
                f"our processes {share * 100:.2f} % of the ranks' CPU",
                flush=True,
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    mean, spread = statistics.mean(ratios), statistics.stdev(ratios)
    half = _T.get(len(ratios) - 1, 2.0) * spread / math.sqrt(len(ratios))
    holds = mean - half <= 1 <= mean + half
    print(
        f"\nthroughput, ours to torchrun: {mean:.3f}, 95 % interval {mean - half:.3f}..{mean + half:.3f}",
        end=" ",
    )
    print("holds 1: met" if holds or mean - half > 1 else "does not hold 1: MISSED")
    share = statistics.median(shares)
    verdict = "met" if share < 0.01 else "MISSED"
    print(f"our processes' CPU: {share * 100:.2f} % of the ranks', goal 1 % {verdict}")


def _throughput(words: list[str], env: dict[str, str], marks: Path, folder: Path) -> tuple[float, float]:
    """Steps a second, and what the launcher's own processes used beside the ranks while the ranks ran."""
    marks.unlink(missing_ok=True)
    process = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    keepers = ranks = 0.0
    first: tuple[float, float] | None = None
    while process.poll() is None:
        time.sleep(0.5)
        now = _cpu(folder, process.pid)
        if now[1] and first is None:
            first = now
        if first is not None and now[1] > ranks:
            keepers, ranks = now
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {process.returncode}")
    used = (keepers - first[0], ranks - first[1]) if first else (0.0, 1.0)
    return float(marks.read_text()), used[0] / max(used[1], 0.01)


def _cpu(folder: Path, command: int) -> tuple[float, float]:
    """CPU seconds of our processes (command, guard, runner) and of the ranks."""
    keepers = ranks = 0.0
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes()
            fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            place = os.readlink(f"/proc/{name}/cwd")
        except OSError:
            continue
        seconds = (int(fields[11]) + int(fields[12])) / _TICKS
        if b"benchmarks/train.py" in words and b"start_rank.py" in words:
            ranks += seconds
        elif int(name) == command or place.startswith(str(folder / "home")):
            keepers += seconds
    return keepers, ranks


if __name__ == "__main__":
    main()
