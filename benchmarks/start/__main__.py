"""How soon does a job do its first step on real nodes, and how soon does it go on after a rank was killed.

    python -m benchmarks.start [--rounds 3] [--pods 2 8] [--kills 3] [--power-cut] [--torch]

Both operators serve the same cluster of two nodes in turn, with the same manifests. An all-reduce over plain
sockets is timed, so that no framework's import hides the difference; --torch times torch's too. A rank is
killed several times in a row: what restarts in its place at once the first time waits longer each time after.
"""

from __future__ import annotations

import argparse

from benchmarks.rounds import interleaved, median, ratio_line
from benchmarks.start import fields
from benchmarks.start.fields import OPERATORS, Field
from benchmarks.start.measuring import after_kill, after_loss, after_power_cut, first_step

GOAL = 2.0
TORCH = "torchreduce.py"
POWER_PATIENCE = 120.0
"""Seconds that a job has to come back after a power cut; one that does not takes infinitely long."""


def main() -> None:
    chosen = _arguments()
    with fields.fresh() as field:
        results = interleaved(
            chosen.rounds,
            {name: lambda name=name: _turn(field, name, chosen) for name in OPERATORS},  # type: ignore[misc]
        )
    print()
    theirs, ours = (results[name] for name in OPERATORS)
    for key in ours[0]:
        rival, mine = median(theirs, key), median(ours, key)
        has_goal = key.startswith(("create to first step", "all kills"))
        line = ratio_line(key, rival, mine, GOAL)
        print(line if has_goal else line.partition("   goal")[0])


def _turn(field: Field, name: str, chosen: argparse.Namespace) -> dict[str, float]:
    """Let one operator start jobs of every size, and disturb them."""
    times: dict[str, float] = {}
    with OPERATORS[name](field):
        for pods in chosen.pods:
            job = f"start-{pods}"
            times[f"create to first step, {pods} pods"] = first_step(field, job, pods)
            kills = [after_kill(field, pods) for _ in range(chosen.kills)]
            for number, seconds in enumerate(kills, 1):
                times[f"rank killed to next step, {pods} pods, kill {number}"] = seconds
            times[f"all kills together, {pods} pods"] = sum(kills)
            field.remove(job)
        for role in ("worker", "master"):
            job = f"lose-{role}"
            first_step(field, job, 2)
            times[f"{role}'s pod lost to next step, 2 pods"] = after_loss(field, job, 2, role)
            field.remove(job)
        if chosen.power_cut:
            first_step(field, "cut", 2)
            times["a node's power cut to next step, 2 pods"] = after_power_cut(
                field, "cut", 2, POWER_PATIENCE
            )
            field.remove("cut")
        if chosen.torch:
            times["create to torch's first all-reduce, 2 pods"] = first_step(field, "start-torch", 2, TORCH)
            field.remove("start-torch")
    return times


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pods", type=int, nargs="+", default=[2, 8])
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--power-cut", action="store_true", help="also cut the power of a node")
    parser.add_argument("--torch", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
