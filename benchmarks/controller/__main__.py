"""How fast are many jobs carried on: our operator beside bare senders and the Training Operator.

    python -m benchmarks.controller [--jobs 200 ...] [--rounds 1] [--only ours ...] [--one-job 1000]

Every contestant gets an API server of its own, with the same TFJobs of four workers in it, and kwok plays the
kubelet. Times count from the contestant's first pod, without its own start. Ceilings are the pods
and services of our operator sent bare, and all of its writes sent bare. The rival with its defaults
(20 requests a second, one thread) gets fewer jobs, because its time for one job does not depend on their
number; ratios to it compare the time for one job.
"""

from __future__ import annotations

import argparse

from benchmarks.controller import reporting
from benchmarks.controller.contestants import Contestant, everyone
from benchmarks.controller.measuring import Load, Outcome, measure
from benchmarks.controller.recorder import Recording
from benchmarks.controller.recording import record

WORKERS = 4
SLOW = "defaults"


def main() -> None:
    chosen = _arguments()
    ours: list[list[Outcome]] = []
    for load in [Load(jobs, WORKERS) for jobs in chosen.jobs]:
        print(f"\n{load.jobs} jobs of {load.workers} pods", flush=True)
        ours.append(_compare(_chosen(load.workers, chosen.only), load, chosen).get("ours", []))
    if len(ours) > 1 and all(ours):
        print(f"\n{reporting.growth(ours)}", flush=True)
    if chosen.one_job:
        load = Load(1, chosen.one_job)
        print(f"\none job of {load.workers} pods", flush=True)
        contestants = _chosen(load.workers, chosen.only)
        _compare({word: one for word, one in contestants.items() if word != SLOW}, load, chosen)


def _compare(
    contestants: dict[str, Contestant], load: Load, chosen: argparse.Namespace
) -> dict[str, list[Outcome]]:
    outcomes = _rounds(contestants, load, chosen)
    names = {word: one.name for word, one in contestants.items()}
    for text in (
        reporting.table(names, outcomes),
        reporting.requests(names, outcomes),
        reporting.goals(outcomes),
    ):
        print(f"\n{text}", flush=True)
    return outcomes


def _rounds(
    contestants: dict[str, Contestant], load: Load, chosen: argparse.Namespace
) -> dict[str, list[Outcome]]:
    """Take each contestant once a round; the slow one only in the first."""
    outcomes: dict[str, list[Outcome]] = {word: [] for word in contestants}
    for number in range(chosen.rounds):
        for word, one in contestants.items():
            if word == SLOW and number:
                continue
            given = Load(min(load.jobs, chosen.slow_jobs), load.workers) if word == SLOW else load
            outcome = measure(one, given)
            outcomes[word].append(outcome)
            print(
                f"round {number + 1}/{chosen.rounds}  {one.name:<42} {given.jobs} jobs:"
                f" pods Running {outcome.pods_running:.1f} s, jobs Running {outcome.jobs_running:.1f} s,"
                f" Succeeded {outcome.succeeded:.1f} s, CPU {outcome.cpu:.1f} s",
                flush=True,
            )
    return outcomes


def _chosen(workers: int, only: list[str]) -> dict[str, Contestant]:
    recording = record(workers) if not only or {"bare", "requests"} & set(only) else Recording()
    return {word: one for word, one in everyone(recording).items() if word in only or not only}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, nargs="+", default=[200])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=[], metavar="CONTESTANT")
    parser.add_argument("--slow-jobs", type=int, default=60, help="jobs of the rival with its defaults")
    parser.add_argument("--one-job", type=int, default=0, metavar="PODS", help="also one job of so many pods")
    return parser.parse_args()


if __name__ == "__main__":
    main()
