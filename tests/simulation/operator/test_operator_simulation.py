"""Does the operator bring every job to a right end, whatever its cluster does to it on the way.

A seed is a cluster, its jobs and everything that goes wrong in it, with the real controller, caches, client
and lease over a model of the API server. `BIREME_OPERATOR_SIMULATION_SEEDS` says how many are lived through;
`python -m tests.simulation.operator` runs many more of them, or tells one request by request.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys

import pytest

from bireme.model.status import Phase
from tests.simulation.operator.__main__ import hammer
from tests.simulation.operator.run import Trace, run

SEEDS = int(os.environ.get("BIREME_OPERATOR_SIMULATION_SEEDS", "60"))
AT_ONCE = 10


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
    program = "from tests.simulation.operator.run import run; print(*(run(seed).digest for seed in range(4)))"
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

    assert lives == {" ".join(run(seed).digest for seed in range(4)) + "\n"}


def test_seeds_meet_every_fate() -> None:
    traces = [lived(seed) for seed in range(20)]

    fates = [fate for trace in traces for fate in trace.fates]
    told = " ".join(one.conditions[-1].message for one in fates if one.phase is Phase.FAILED)
    assert sum(one.phase is Phase.SUCCEEDED for one in fates) > 10
    assert all(reason in told for reason in ("backoff limit", "deadline", "replica(s) failed"))
    assert sum(one.attempt > 1 for one in fates) > 5
    assert sum(bool(one.crashes and one.evictions) for one in fates) > 3
    assert len({trace.profile.leaders for trace in traces}) == 3


@pytest.mark.soak
def test_thousands_of_seeds_break_no_rule() -> None:
    assert hammer(first=0, seeds=3000) == 0
