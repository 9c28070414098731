"""Brings up a fresh control plane with one played node, so that no contestant finds what another left."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tools.testcluster import clusters, states
from tools.testcluster.clusters import Wish
from tools.testcluster.places import Home
from tools.testcluster.processes import Process

from benchmarks import trainingoperator
from benchmarks.controller import manifests
from benchmarks.controller.playing import Player
from benchmarks.wire import Line, request
from bireme.operator.install import crds

NAME = "benchmark"
LOADERS = 16
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Arena:
    """A running control plane, and the ways in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = Home(NAME).kubeconfig
        self.line = Line(self.kubeconfig)
        self.player = Player(self.kubeconfig, folder)

    @property
    def server(self) -> Process:
        """The API server's process."""
        state = states.load(Home(NAME))
        assert state is not None
        return state.processes["kube-apiserver"]

    def define_for_us(self) -> None:
        for one in crds.every():
            self.line.call("POST", _DEFINITIONS, one)
        self._await_definitions()

    def define_for_the_rival(self) -> None:
        trainingoperator.install(self.line)
        self._await_definitions()

    def load(self, jobs: int, workers: int) -> dict[str, str]:
        """Create jobs and return the uid of each by its name."""
        uids: dict[str, str] = {}
        numbers = iter(range(jobs))
        lock = threading.Lock()

        def work() -> None:
            line = Line(self.kubeconfig)
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                made = line.call("POST", manifests.JOBS, manifests.job(number, workers))
                uids[made["metadata"]["name"]] = made["metadata"]["uid"]

        threads = [threading.Thread(target=work) for _ in range(LOADERS)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        if len(uids) != jobs:
            raise SystemExit(f"only {len(uids)} of {jobs} jobs could be created")
        return dict(sorted(uids.items()))

    def _await_definitions(self) -> None:
        """A resource that was just defined is refused for a moment."""
        end = time.monotonic() + 30
        while self.line.send(request("GET", f"{manifests.JOBS}?limit=1"))[0] != 200:
            if time.monotonic() > end:
                raise SystemExit("the API server did not serve TFJobs within 30 s")
            time.sleep(0.1)
        time.sleep(1.5)  # Its first watch is refused for a second longer.


@contextlib.contextmanager
def fresh() -> Iterator[Arena]:
    """Bring up a control plane of our own for as long as this is entered."""
    clusters.down(NAME)
    clusters.up(NAME, Wish(nodes=0, controller_manager=False), tell=lambda line: None)
    try:
        with tempfile.TemporaryDirectory(prefix="bireme-bench-") as folder:
            arena = Arena(Path(folder))
            arena.line.call("POST", "/api/v1/nodes", manifests.node())
            status = f"/api/v1/nodes/{manifests.NODE}/status"
            arena.line.call(
                "PATCH", status, manifests.node_status(), Content_Type="application/merge-patch+json"
            )
            try:
                yield arena
            finally:
                arena.player.stop()
    finally:
        clusters.down(NAME)
