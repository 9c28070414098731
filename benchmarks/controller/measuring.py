"""What does one contestant need: from its first pod to all jobs Running, and from there to all Succeeded."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import NoReturn

from msgspec import Struct
from tools.testcluster import processes
from tools.testcluster.processes import Process

from benchmarks.controller import arena as arenas
from benchmarks.controller import manifests, observing
from benchmarks.controller.arena import Arena
from benchmarks.controller.contestants import Contestant, Uids
from benchmarks.controller.observing import Jobs, Pods

PAUSE, LONGEST_PAUSE = 0.05, 0.3
PATIENCE = 120.0
"""Seconds without any progress after which a run has failed."""


class Load(Struct, frozen=True):
    """How much there is to do."""

    jobs: int
    workers: int

    @property
    def pods(self) -> int:
        return self.jobs * self.workers


class Outcome(Struct, frozen=True):
    """What was measured; times are in seconds, and those to Running count from the first pod."""

    load: Load
    first_pod: float
    """From its start: what it takes to be ready."""
    created: float
    pods_running: float
    jobs_running: float
    succeeded: float
    """From the moment when the kubelet begins to report that pods succeeded."""
    requests: Counter[str]
    cpu: float
    peak: float
    server_cpu: float

    @property
    def requests_per_job(self) -> float:
        return self.requests.total() / self.load.jobs


def measure(contestant: Contestant, load: Load) -> Outcome:
    """Lets a contestant run jobs on a control plane of its own."""
    with arenas.fresh() as arena:
        contestant.define(arena)
        warm_up(arena)
        uids = arena.load(load.jobs, load.workers)
        return _Run(arena, contestant, load, uids).outcome()


class _Run:
    def __init__(self, arena: Arena, contestant: Contestant, load: Load, uids: Uids) -> None:
        self._arena, self._contestant, self._load, self._uids = arena, contestant, load, uids
        self._pods, self._jobs = Pods(arena.kubeconfig), Jobs(arena.kubeconfig)

    def outcome(self) -> Outcome:
        counted = observing.requests(self._arena.line)
        server_cpu = observing.cpu_seconds(self._arena.server)
        began = time.monotonic()
        with self._contestant.start(self._arena, self._uids) as process:
            first = self._until(lambda: self._pods.count() > 0, process)
            created = self._until(lambda: self._pods.count() >= self._load.pods, process)
            pods = self._until(lambda: self._pods.are_all("Running"), process)
            jobs = self._until(lambda: self._are_done(process, "Running"), process)
            if not self._contestant.is_bare:
                # The poll comes late; the watch has seen when.
                jobs = max(self._jobs.times["Running"].values())
            succeeded = self._succeed(process)
            return Outcome(
                load=self._load,
                first_pod=first - began,
                created=created - first,
                pods_running=pods - first,
                jobs_running=max(pods, jobs) - first,
                succeeded=succeeded,
                requests=observing.requests(self._arena.line) - counted,
                cpu=observing.cpu_seconds(process),
                peak=observing.peak_megabytes(process),
                server_cpu=observing.cpu_seconds(self._arena.server) - server_cpu,
            )

    def _succeed(self, process: Process) -> float:
        """Let the pods succeed; return the seconds until all jobs did."""
        began = time.monotonic()
        self._arena.player.end_pods()
        if self._contestant.end is not None:
            with self._contestant.end(self._arena, self._uids):
                self._until(lambda: self._pods.are_all("Succeeded"), process)
            return time.monotonic() - began
        ended = self._until(lambda: self._are_done(process, "Succeeded"), process)
        if self._contestant.is_bare:
            ended = self._until(lambda: self._pods.are_all("Succeeded"), process)
        else:
            ended = max(self._jobs.times["Succeeded"].values())
        return ended - began

    def _are_done(self, process: Process, condition: str) -> bool:
        """Whether all jobs have the condition; bare senders have no jobs, but must have ended."""
        if self._contestant.is_bare:
            return not _runs(process)
        return len(self._jobs.times[condition]) >= self._load.jobs

    def _until(self, condition: Callable[[], bool], process: Process) -> float:
        last, seen = time.monotonic(), self._progress()
        while True:
            asked = time.monotonic()
            if condition():
                return time.monotonic()
            if (progress := self._progress()) != seen:
                last, seen = asked, progress
            if time.monotonic() - last > PATIENCE:
                self._give_up(f"nothing happened for {PATIENCE:.0f} s; {seen}")
            if not self._contestant.is_bare and not processes.alive(process):
                self._give_up("it ended by itself")
            # Questions about thousands of pods are not free: they take at most a tenth of the time.
            time.sleep(min(LONGEST_PAUSE, max(PAUSE, 9 * (time.monotonic() - asked))))

    def _give_up(self, why: str) -> NoReturn:
        logs = [f"{one.name}:\n{one.read_text()[-2000:]}" for one in self._arena.folder.glob("*.log")]
        raise SystemExit("\n".join([f"{self._contestant.name}: {why}", *logs]))

    def _progress(self) -> tuple[int, ...]:
        return (self._pods.count(), *(len(one) for one in self._jobs.times.values()))


def _runs(process: Process) -> bool:
    """Whether a child still runs; one that ended is left for its starter to wait for, with its books."""
    with open(f"/proc/{process.pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] not in "ZX"


def warm_up(arena: Arena) -> None:
    """Wait until the kubelet is played: one pod is run and removed."""
    arena.player.run_pods()
    pods = f"/api/v1/namespaces/{manifests.NAMESPACE}/pods"
    container = {"name": "main", "image": "example.com/none:1"}
    body = {"metadata": {"name": "warm-up"}, "spec": {"nodeName": manifests.NODE, "containers": [container]}}
    arena.line.call("POST", pods, body)

    def runs() -> bool:
        return bool(arena.line.get(f"{pods}/warm-up")["status"]["phase"] == "Running")

    if not processes.until(runs, 30.0):
        raise SystemExit(f"kwok played no pod: {(arena.folder / 'kwok.log').read_text()[-2000:]}")
    arena.line.call("DELETE", f"{pods}/warm-up", {"gracePeriodSeconds": 0})
