"""Runs many seeds, or tells one: `python -m tests.simulation.operator --seeds 1000`."""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.operator.run import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.operator", description=__doc__)
    parser.add_argument("--seed", type=int, help="tell this seed alone, request by request")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=100, help="run so many seeds")
    chosen = parser.parse_args()
    if chosen.seed is not None:
        trace = run(chosen.seed)
        print("\n".join(trace.report()))
        return 1 if trace.violation else 0
    return hammer(chosen.first, chosen.seeds)


def hammer(first: int, seeds: int) -> int:
    began = time.process_time()
    steps = broken = 0
    for seed in range(first, first + seeds):
        trace = run(seed)
        steps += trace.steps
        if trace.violation:
            broken += 1
            if broken <= 3:
                print("\n".join(trace.report()), flush=True)
            else:
                print(f"seed {seed}: {trace.violation}", flush=True)
        if (seed - first + 1) % 100 == 0:
            done = seed - first + 1
            print(f"{done} seeds, {steps} steps, {broken} violations", file=sys.stderr, flush=True)
    spent = time.process_time() - began
    print(f"{seeds} seeds, {steps} steps: {broken} violations ({spent:.0f} CPU seconds)")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
