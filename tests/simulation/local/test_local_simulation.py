"""Every local run comes to a right end, whatever its machine does to it on the way.

A seed is a job, a machine and everything that goes wrong on it, with the real backend, replicas, journal,
ledger and runner's loop over played processes. `BIREME_LOCAL_SIMULATION_SEEDS` says how many are lived
through; `python -m tests.simulation.local` runs many more of them, or tells one step by step.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys

import pytest

from bireme import kinds
from bireme.model.job import RestartScope
from bireme.model.status import Phase
from tests.simulation.local.__main__ import hammer
from tests.simulation.local.run import Trace, run

SEEDS = int(os.environ.get("BIREME_LOCAL_SIMULATION_SEEDS", "200"))
AT_ONCE = 20


@functools.cache
def lived(seed: int) -> Trace:
    return run(seed)


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_no_rule_is_broken(first: int) -> None:
    for seed in range(first, min(first + AT_ONCE, SEEDS)):
        trace = lived(seed)

        assert not trace.violation, "\n".join(trace.report())


def test_a_seed_is_the_same_life_every_time() -> None:
    """Also where sets and dicts of names are ordered otherwise."""
    program = "from tests.simulation.local.run import run; print(*(run(seed).digest for seed in range(8)))"
    lives = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hashing, "PYTHONPATH": os.pathsep.join(sys.path)},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
        for hashing in ("1", "2")
    }

    assert lives == {" ".join(run(seed).digest for seed in range(8)) + "\n"}


def test_seeds_meet_every_kind_and_every_fate() -> None:
    traces = [lived(seed) for seed in range(100)]

    assert {trace.job.kind for trace in traces} == set(kinds.BY_NAME)
    assert {trace.job.unit for trace in traces} == set(RestartScope)
    assert {trace.status.phase for trace in traces} == {Phase.SUCCEEDED, Phase.FAILED}
    assert sum(trace.deaths > 1 for trace in traces) > 10
    assert sum(trace.status.attempt > 1 for trace in traces) > 10
    assert sum(bool(trace.status.crashes and trace.status.evictions) for trace in traces) > 3


@pytest.mark.soak
def test_many_steps_break_no_rule() -> None:
    assert hammer(first=0, seeds=5_000, steps=200_000) == 0
