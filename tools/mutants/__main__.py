"""Would the tests notice a mistake: `python -m tools.mutants --sample 200` makes some and sees.

Each mutant is a copy of `core` or `kinds` with one small change. It is killed when a test fails or takes far
too long; one that survives is shown, to be explained or to be met with a test.
"""

from __future__ import annotations

import argparse
import difflib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tools.mutants.mutate import Mutant, mutants, normal

FOLDERS = ("src/bireme/core", "src/bireme/kinds")
TESTS = ("tests/unit/core", "tests/unit/kinds", "tests/simulation")
COPIED = ("src", "tests/__init__.py", "tests/unit", "tests/simulation", "pyproject.toml")
SEEDS = "150"


@dataclass(frozen=True)
class Sample:
    file: str
    mutant: Mutant


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=60, help="how many mutants are tried")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--only", default="", help="only files whose path contains this text")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="which tests must notice")
    chosen = parser.parse_args()
    root = Path(__file__).parents[2]
    found = [one for one in _all(root) if chosen.only in one.file]
    picked = random.Random(chosen.seed).sample(found, min(chosen.sample, len(found)))
    print(f"{len(found)} mutants, {len(picked)} are tried", flush=True)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        laboratory = _Laboratory(root, Path(folder), tuple(chosen.tests))
        survivors = [one for number, one in enumerate(picked, 1) if laboratory.survives(number, one)]
    killed = len(picked) - len(survivors)
    print(f"{killed} of {len(picked)} killed ({100 * killed / len(picked):.1f} %), {len(survivors)} survived")
    return 0 if killed >= 0.9 * len(picked) else 1


def _all(root: Path) -> list[Sample]:
    files = sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.py"))
    return [
        Sample(str(path.relative_to(root)), mutant) for path in files for mutant in mutants(path.read_text())
    ]


class _Laboratory:
    """A copy of the project in which one file at a time is replaced by a mutant."""

    def __init__(self, root: Path, folder: Path, tests: tuple[str, ...]) -> None:
        self._folder, self._tests = folder, tests
        for name in COPIED:
            source, target = root / name, folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, target)
        began = time.monotonic()
        if self._passes(limit=1200.0) is not True:
            sys.exit("the tests fail without any mutant: mend them first")
        self._limit = 30.0 + 4 * (time.monotonic() - began)

    def survives(self, number: int, sample: Sample) -> bool:
        path = self._folder / sample.file
        source = path.read_text()
        path.write_text(sample.mutant.text)
        try:
            passes = self._passes(self._limit)
        finally:
            path.write_text(source)
        verdict = {True: "SURVIVED", False: "killed", None: "killed (too slow)"}[passes]
        where = f"{sample.file}:{sample.mutant.line}"
        print(f"{number}. {verdict} {where} {sample.mutant.what}", flush=True)
        if passes:
            print(_difference(normal(source), sample), flush=True)
        return passes is True

    def _passes(self, limit: float) -> bool | None:
        """Whether all tests pass; None when they do not come to an end."""
        command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *self._tests]
        # The copy comes before whatever of the project is installed.
        paths = os.pathsep.join([str(self._folder / "src"), str(self._folder)])
        env = {**os.environ, "BIREME_SIMULATION_SEEDS": SEEDS, "PYTHONPATH": paths}
        quiet = subprocess.DEVNULL
        running = subprocess.Popen(
            command, cwd=self._folder, env=env, stdout=quiet, stderr=quiet, start_new_session=True
        )
        try:
            return running.wait(limit) == 0
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
            return None


def _difference(source: str, sample: Sample) -> str:
    lines = difflib.unified_diff(
        source.splitlines(), sample.mutant.text.splitlines(), sample.file, sample.file, lineterm="", n=2
    )
    return "\n".join(f"    {line}" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
