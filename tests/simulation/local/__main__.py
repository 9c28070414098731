"""Runs many seeds, or tells one: `python -m tests.simulation.local --seeds 10000 --steps 1000000`."""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.local.run import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.local", description=__doc__)
    parser.add_argument("--seed", type=int, help="tell this seed alone, step by step")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1000, help="run at least so many seeds")
    parser.add_argument("--steps", type=int, default=0, help="and at least so many steps")
    chosen = parser.parse_args()
    if chosen.seed is not None:
        trace = run(chosen.seed)
        print("\n".join(trace.report()))
        return 1 if trace.violation else 0
    return hammer(chosen.first, chosen.seeds, chosen.steps)


def hammer(first: int, seeds: int, steps: int) -> int:
    began = time.process_time()
    done = taken = broken = 0
    while done < seeds or taken < steps:
        trace = run(first + done)
        done += 1
        taken += trace.steps
        if trace.violation:
            broken += 1
            if broken <= 3:
                print("\n".join(trace.report()), flush=True)
            else:
                print(f"seed {trace.seed}: {trace.violation}", flush=True)
        if done % 1000 == 0:
            print(f"{done} seeds, {taken} steps, {broken} violations", file=sys.stderr, flush=True)
    rate = taken / (time.process_time() - began)
    print(f"{taken} steps over {done} seeds: {broken} violations ({rate:.0f} steps per CPU second)")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
