"""Does every job come to a right end, whatever happens to it on the way.

A seed is a job, a world and everything that goes wrong in it. `BIREME_SIMULATION_SEEDS` says how many are
lived through; `python -m tests.simulation` runs many more of them, or tells one step by step.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from bireme import kinds
from bireme.model.job import RestartScope
from bireme.model.status import Phase
from tests.simulation.run import Trace, run

SEEDS = int(os.environ.get("BIREME_SIMULATION_SEEDS", "1000"))
AT_ONCE = 50


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_no_rule_is_broken(first: int) -> None:
    for seed in range(first, min(first + AT_ONCE, SEEDS)):
        trace = run(seed)

        assert not trace.violation, "\n".join(trace.report())


def test_a_seed_is_the_same_life_every_time() -> None:
    """Also where sets and dicts of names are ordered otherwise."""
    program = "from tests.simulation.run import run; print(*(run(seed).digest for seed in range(20)))"
    lives = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hashing, "PYTHONPATH": os.pathsep.join(sys.path)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hashing in ("1", "2")
    }

    assert lives == {" ".join(run(seed).digest for seed in range(20)) + "\n"}


def test_seeds_meet_every_kind_and_every_fate() -> None:
    traces = [run(seed) for seed in range(150)]

    assert {trace.job.kind for trace in traces} == set(kinds.BY_NAME)
    assert {trace.job.unit for trace in traces} == set(RestartScope)
    fates = Counter(_fate(trace) for trace in traces)
    assert fates[Phase.SUCCEEDED] > 30
    assert {"backoff limit", "evicted", "deadline", "replica(s) failed", "cannot start"} <= fates.keys()
    assert sum(trace.status.attempt > 1 for trace in traces) > 20
    assert sum(bool(trace.status.crashes and trace.status.evictions) for trace in traces) > 10


def _fate(trace: Trace) -> str:
    if trace.status.phase is Phase.SUCCEEDED:
        return Phase.SUCCEEDED
    message = trace.status.conditions[-1].message
    reasons = ("backoff limit", "evicted", "deadline", "replica(s) failed", "cannot start")
    return next((reason for reason in reasons if reason in message), message)
