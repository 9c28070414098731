"""`see` of a backend only reads: the simulations of both are lived through, and whatever it writes is found.

Beside the layers that the simulations play, the interpreter itself tells of files that are opened to be
written, of signals and of new processes. That hook cannot be removed, so it gets a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.operator.run import run

SEEDS = 40
WATCHED = f"""
import os, signal, sys
from tests.simulation import seeing
from tests.simulation.local import __main__ as local, run
from bireme.backends.local.backend import LocalBackend
from bireme.runs.replica_journal import Gone

class Writing(LocalBackend):
    def replicas(self):
        {{bug}}
        return super().replicas()

run.CheckedBackend.__bases__ = (Writing,)
seeing.watch_this_process()
sys.exit(local.hammer(first=0, seeds={SEEDS}, steps=0))
"""


def watched(bug: str) -> subprocess.CompletedProcess[str]:
    """The simulation of the local backend, which does something more each time it looks."""
    return subprocess.run(
        [sys.executable, "-c", WATCHED.format(bug=bug)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_the_local_backend_writes_nothing_while_it_sees() -> None:
    lived = watched(bug="pass")

    assert lived.returncode == 0, lived.stdout


@pytest.mark.parametrize(
    "bug",
    [
        "self.journal.append(Gone('uid', 0.0))",
        "(self._site.folder / 'note').write_text('seen')",
        "(self._site.folder / 'note').unlink(missing_ok=True)",
        "os.kill(os.getpid(), 0)",
        "self._processes.end_run('run')",
        "self._ledger.release(self._run)",
    ],
)
def test_the_proof_finds_what_it_looks_for(bug: str) -> None:
    lived = watched(bug)

    assert lived.returncode == 1
    assert "while it only looks" in lived.stdout


def test_the_cluster_backend_only_reads_while_it_sees() -> None:
    """That requests are made by `see` at all shows that they are looked for in the right place."""
    traces = [run(seed) for seed in range(8)]

    assert not [trace.violation for trace in traces if trace.violation]
    assert sum(trace.looks for trace in traces) > 0
