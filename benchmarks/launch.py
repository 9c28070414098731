"""How soon does a script run: from exec of the command to its first line and its first all-reduce.

    python -m benchmarks.launch [--rounds 7] [--before FOLDER]

The rival is torchrun of the same torch, with two ranks on this machine. A new script is one that has never
run, in a folder of its own, beside an interpreter that another script has made warm. With `--before`, a
checkout of an older commit is the rival of this one, and only the second run of a script is measured.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks.rounds import BIN, environment, interleaved, median, ratio_line, timed

SCRIPT = str(Path(__file__).with_name("allreduce.py"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--before", metavar="FOLDER", help="a checkout of an older commit")
    asked = parser.parse_args()
    rounds: int = asked.rounds
    if asked.before:
        _compare(rounds, Path(asked.before).resolve())
        return
    folder = Path(tempfile.mkdtemp(prefix="bireme-bench-"))
    env = environment(folder / "home")
    marks = folder / "marks"
    rival = [str(BIN / "torchrun"), "--nproc-per-node", "2", "--master-port", "29511", SCRIPT]
    ours = [str(BIN / "bireme"), "run", SCRIPT, "--workers", "2"]
    try:
        timed(rival, env, marks)  # Both find their files in the page cache from here on.
        timed(ours, env, marks)
        _wait_until_warm(env)
        results = interleaved(
            rounds,
            {
                "torchrun": lambda: timed(rival, env, marks),
                "bireme, cold": lambda: timed([*ours, "--cold"], env, marks),
                "bireme, second run": lambda: timed(ours, env, marks),
                "bireme, new script": lambda: timed([*ours[:2], _new(folder), *ours[3:]], env, marks),
            },
        )
    finally:
        subprocess.run([str(BIN / "bireme"), "doctor", "--end-warm"], env=env, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)
    print()
    torchrun, cold, warm, new = results.values()
    for what, mark, mine, goal in (
        ("first user line, cold", "first_line", cold, 10.0),
        ("first all-reduce, cold", "all_reduce", cold, 1.5),
        ("first user line, second run", "first_line", warm, 10.0),
        ("first all-reduce, second run", "all_reduce", warm, 25.0),
        ("first user line, new script", "first_line", new, 10.0),
        ("first all-reduce, new script", "all_reduce", new, 10.0),
    ):
        print(ratio_line(what, median(torchrun, mark), median(mine, mark), goal))


def _compare(rounds: int, before: Path) -> None:
    """Measure the warm start of an older tree and of this one in turn, each with a home of its own."""
    folder = Path(tempfile.mkdtemp(prefix="bireme-bench-"))
    marks = folder / "marks"
    words = [str(BIN / "bireme"), "run", SCRIPT, "--workers", "2"]
    trees = {"before": before / "src", "now": Path(__file__).resolve().parents[1] / "src"}
    # As an installed package has it; with PYTHONDONTWRITEBYTECODE, each start would compile all over again.
    subprocess.run([sys.executable, "-m", "compileall", "-q", *map(str, trees.values())], check=True)
    envs = {name: environment(folder / name, PYTHONPATH=str(path)) for name, path in trees.items()}
    try:
        for env in envs.values():
            timed(words, env, marks)
            _wait_until_warm(env)
        ways = {name: partial(timed, words, env, marks) for name, env in envs.items()}
        results = interleaved(rounds, ways)
    finally:
        for env in envs.values():
            subprocess.run([str(BIN / "bireme"), "doctor", "--end-warm"], env=env, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)
    print()
    for mark in ("first_line", "all_reduce"):
        rival, ours = (median(results[name], mark) for name in trees)
        print(ratio_line(f"{mark}, warm, against {before.name}", rival, ours, 2.0))


def _new(folder: Path) -> str:
    """A script that has not run yet: another name, another folder, other lines."""
    place = Path(tempfile.mkdtemp(prefix="new-", dir=folder))
    script = place / f"{place.name.replace('-', '_')}.py"
    script.write_text(f"# {place.name}\n{Path(SCRIPT).read_text()}")
    return str(script)


def _wait_until_warm(env: dict[str, str]) -> None:
    """A background import must not run into the measured rounds."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        shown = subprocess.run([str(BIN / "bireme"), "ps"], env=env, capture_output=True, text=True)
        _, _, warm = shown.stdout.partition("warm interpreter")
        if "torch" in warm and "starting" not in warm:
            time.sleep(2)
            return
        time.sleep(1)
    raise SystemExit("no warm interpreter came up within 120 s")


if __name__ == "__main__":
    main()
