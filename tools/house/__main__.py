"""`python -m tools.house [NAME=FOLDER ...]` measures src/bireme, and other trees in columns beside it.

A helper used once is a private function that its file mentions once beside its definition: each one costs its
reader a jump. A module name with two meanings is one that stands in two folders, `cli/verbs` and `cli/render`
apart, which are named after what they show.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.house.measuring import House, measure

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.house", description=__doc__)
    parser.add_argument("trees", nargs="*", metavar="NAME=FOLDER", help="trees to measure beside ours")
    parser.add_argument("--folders", action="store_true", help="helpers used once, folder by folder")
    words = parser.parse_args()
    trees = {"Bireme": ROOT / "src" / "bireme"}
    trees |= {name: Path(folder) for name, _, folder in (tree.partition("=") for tree in words.trees)}
    houses = {name: measure(folder) for name, folder in trees.items()}
    print(table(houses))
    ours = houses["Bireme"]
    print(f"\nmodule names with two meanings: {', '.join(ours.ambiguous_modules) or 'none'}")
    print(f"class names with two meanings:  {', '.join(ours.ambiguous_classes) or 'none'}")
    print(f"single kinds outside kinds/:    {ours.kinds_named_elsewhere}")
    print(f"docstrings that ask:            {len(ours.modules_that_ask)}")
    if words.folders:
        for folder, (once, functions) in sorted(ours.helpers_by_folder.items()):
            print(f"{folder:45} {once:4} of {functions:4} functions")
    return 0


def table(houses: dict[str, House]) -> str:
    """The figures as a Markdown table, one column for each tree."""
    rows = [
        ("", list(houses)),
        ("---", ["---"] * len(houses)),
        ("files, lines", [f"{house.files}, {house.lines}" for house in houses.values()]),
        ("file p50 / p95 / max", [house.file_lengths.shown for house in houses.values()]),
        ("function p50 / p95 / max", [house.function_lengths.shown for house in houses.values()]),
        ("helpers used once, of all functions", [f"{house.used_once:.0%}" for house in houses.values()]),
        ("comments per 100 lines of code", [f"{house.comments:.1f}" for house in houses.values()]),
        (
            "modules in the three fullest folders",
            [", ".join(map(str, house.fullest)) for house in houses.values()],
        ),
    ]
    return "\n".join(f"| {' | '.join([title, *cells])} |" for title, cells in rows)


if __name__ == "__main__":
    sys.exit(main())
