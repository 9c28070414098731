"""What does the tool itself cost: CPU time of `--help`, packages and megabytes of an install.

python -m benchmarks.cli
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.rounds import BIN

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    costs = [_cpu([str(BIN / "bireme"), "--help"]) for _ in range(15)]
    help_cost = statistics.median(costs)
    print(f"bireme --help                  {help_cost:.3f} CPU s   goal 0.15 {_verdict(help_cost <= 0.15)}")
    imports = [_cpu([sys.executable, "-c", "import bireme"]) for _ in range(15)]
    bare = [_cpu([sys.executable, "-c", "pass"]) for _ in range(15)]
    extra = statistics.median(imports) - statistics.median(bare)
    print(f"import bireme in a script      {extra:.3f} CPU s   goal 0.05 {_verdict(extra <= 0.05)}")
    packages, size = _install()
    print(f"pip install bireme             {packages} packages   goal 20 {_verdict(packages <= 20)}")
    print(f"                               {size:.1f} MB   goal 40 {_verdict(size <= 40)}")


def _cpu(words: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _install() -> tuple[int, float]:
    folder = tempfile.mkdtemp(prefix="bireme-install-")
    try:
        words = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, str(ROOT)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        packages = len(list(Path(folder).glob("*.dist-info")))
        size = sum(
            os.path.getsize(os.path.join(top, name)) for top, _, names in os.walk(folder) for name in names
        )
        return packages, size / 1e6
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _verdict(met: bool) -> str:
    return "met" if met else "MISSED"


if __name__ == "__main__":
    main()
