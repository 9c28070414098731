"""Records our operator while it runs one job, with a recorder between it and the API server."""

from __future__ import annotations

from tools.testcluster import processes

from benchmarks.controller import arena as arenas
from benchmarks.controller import manifests
from benchmarks.controller.contestants import operator
from benchmarks.controller.measuring import warm_up
from benchmarks.controller.observing import Jobs
from benchmarks.controller.recorder import Recorder, Recording

PATIENCE = 120.0
QUIET = 3.0
"""Seconds after which nothing more is expected of an operator whose job has come to where it should."""


def record(workers: int) -> Recording:
    """Record every write of one job, up to Running and from there to Succeeded."""
    with arenas.fresh() as arena, Recorder(arena.kubeconfig, arena.folder).listening() as recorder:
        arena.define_for_us()
        warm_up(arena)
        uids = arena.load(1, workers)
        jobs = Jobs(arena.kubeconfig)
        log = arena.folder / "operator.log"
        process = processes.spawn("operator", operator(str(recorder.kubeconfig)), log)
        try:
            name = manifests.name(0)
            parts = []
            for condition, following in (("Running", arena.player.end_pods), ("Succeeded", lambda: None)):
                if not processes.until(lambda: name in jobs.times[condition], PATIENCE):  # noqa: B023
                    raise SystemExit(f"the job did not become {condition}: {log.read_text()[-2000:]}")
                processes.until(lambda: False, QUIET)
                parts.append(recorder.take())
                following()
            return Recording(name, uids[name], *parts)
        finally:
            processes.end([process])
