"""An operator that is killed again and again loses no job, makes no pod twice and counts no loss twice."""

from __future__ import annotations

import json
import os
import random
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchmarks.controller.manifests import NODE
from benchmarks.controller.playing import Player
from tools.testcluster import clusters

from tests.cluster import operator_fixtures
from tests.cluster.control_plane import Plane, plane
from tests.cluster.operator_fixtures import CRDS

KILLS = int(os.environ.get("BIREME_SOAK_ROUNDS", "50"))
JOBS = 2 * KILLS
WORKERS = 4
LOST = JOBS // 4
"""Pods that are evicted while the operator comes and goes."""
PATIENCE = 600.0

Json = Any  # whatever the API server answers


class Witness:
    """Writes down every pod that ever was, by watching beside the operator."""

    def __init__(self, server: Plane) -> None:
        form = 'jsonpath={.object.metadata.name} {.object.metadata.uid}{"\\n"}'
        words = ["get", "pods", "--watch", "--output-watch-events", "-o", form]
        self._process = subprocess.Popen(
            [clusters.kubectl(), "--kubeconfig", server.kubeconfig, *words], stdout=subprocess.PIPE, text=True
        )
        self.uids: dict[str, set[str]] = {}
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            name, uid = line.split()
            self.uids.setdefault(name, set()).add(uid)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.join(10)


@pytest.mark.soak
def test_an_operator_that_is_killed_again_and_again(tmp_path: Path) -> None:
    rng = random.Random(7)
    with plane("soak") as server:
        for file in CRDS:
            server.asked("apply", "-f", str(file))
        server.asked("create", "-f", "-", stdin=yaml.safe_dump(_node()))
        witness, player = Witness(server), Player(server.kubeconfig, tmp_path)
        with operator_fixtures.operator(server.kubeconfig, tmp_path / "log") as one:
            try:
                player.run_pods()
                server.asked("create", "-f", "-", stdin=yaml.safe_dump_all([_job(i) for i in range(JOBS)]))
                _kill(one, KILLS // 2, rng)
                _until(lambda: _holding(server, "Running") == JOBS, "all jobs to run")
                evicted = _evict(server, rng)
                _kill(one, KILLS // 4, rng)
                _until(lambda: _losses(server) == evicted, "every loss to be counted")
                _until(lambda: _pods_running(server) == JOBS * WORKERS, "all pods to run")
                player.end_pods()
                _kill(one, KILLS - KILLS // 2 - KILLS // 4, rng)
                _until(lambda: _holding(server, "Succeeded") == JOBS, "all jobs to succeed")
                assert _losses(server) == evicted
            finally:
                player.stop()
                witness.close()
    again = {name: len(uids) - 1 for name, uids in witness.uids.items() if len(uids) > 1}
    assert again == {f"{job}-worker-0": count for job, count in evicted.items()}
    assert len(witness.uids) == JOBS * WORKERS
    print(f"\noperator: {KILLS} kills, {JOBS} jobs, {len(evicted)} evictions: 0 lost, 0 twice, 0 miscounted")


def _kill(one: operator_fixtures.Operator, times: int, rng: random.Random) -> None:
    for _ in range(times):
        time.sleep(0.7 + 2.5 * rng.random())  # Starting takes most of the first second.
        one.kill()
        one.start()


def _evict(server: Plane, rng: random.Random) -> dict[str, int]:
    """Evict some workers, and say which job lost how many."""
    chosen = rng.sample(range(JOBS), LOST)
    status = json.dumps({"status": {"phase": "Failed", "reason": "Evicted", "message": "low on memory"}})
    for number in chosen:
        pod = f"job-{number}-worker-0"
        server.asked("patch", f"pod/{pod}", "--subresource=status", "--type=merge", "-p", status)
    return {f"job-{number}": 1 for number in chosen}


def _jobs(server: Plane) -> list[Json]:
    found: list[Json] = server.object("tfjobs")["items"]
    return found


def _holding(server: Plane, condition: str) -> int:
    return sum(
        any(one["type"] == condition and one["status"] == "True" for one in job["status"]["conditions"])
        for job in _jobs(server)
        if job.get("status", {}).get("conditions")
    )


def _losses(server: Plane) -> dict[str, int]:
    memories = {job["metadata"]["name"]: job["status"]["bireme"] for job in _jobs(server)}
    losses = {
        name: memory.get("evictions", 0) + memory.get("crashes", 0) for name, memory in memories.items()
    }
    return {name: count for name, count in losses.items() if count}


def _pods_running(server: Plane) -> int:
    return sum(one["status"]["phase"] == "Running" for one in server.object("pods")["items"])


def _until(true: Any, what: str) -> None:
    due = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < due, f"waited {PATIENCE:.0f} s in vain for {what}"
        time.sleep(1)


def _node() -> Json:
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NODE},
        "status": {"conditions": [ready]},
    }


def _job(number: int) -> Json:
    container = {"name": "tensorflow", "image": "example/train:1"}
    template = {"spec": {"nodeName": NODE, "containers": [container], "terminationGracePeriodSeconds": 0}}
    worker = {"replicas": WORKERS, "restartPolicy": "OnFailure", "template": template}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": f"job-{number}"},
        "spec": {"tfReplicaSpecs": {"Worker": worker}},
    }
