"""What a job costs others that its namespace has no room for: small jobs alone, and then beside a large one.

    python -m benchmarks.controller.crowding [--replicas 5000] [--quota 10] [--jobs 100] [--rounds 1]

The large TFJob is submitted first, under a quota of pods; then the small jobs are. Requests are counted for a
minute. The operator is asked for its metrics all the while: how long it takes to answer is how long something
else kept its loop busy.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import socket
import statistics
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator

from msgspec import Struct
from tools.testcluster import processes
from tools.testcluster.processes import Process

from benchmarks.controller import arena as arenas
from benchmarks.controller import manifests, observing
from benchmarks.controller.arena import Arena
from benchmarks.controller.measuring import warm_up
from benchmarks.controller.observing import Jobs
from benchmarks.rounds import BIN

CROWDED = "crowded"
HEAD_START = 3.0
"""Seconds that the large job has for itself."""
COUNTED = 60.0
"""Seconds in which requests are counted, at least."""
PATIENCE = 300.0
_SENT = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class Outcome(Struct, frozen=True):
    """What was seen; times are in seconds from the submission of the first small job."""

    median: float
    last: float
    seconds: float
    """In which requests were counted."""
    requests: int
    refused: int
    pods: int
    services: int
    transitions: int
    stall: float
    cpu: float
    peak: float


def main() -> None:
    chosen = _arguments()
    alone: list[Outcome] = []
    beside: list[Outcome] = []
    for number in range(chosen.rounds):
        for outcomes, replicas in ((alone, 0), (beside, chosen.replicas)):
            outcomes.append(_measure(chosen.jobs, replicas, chosen.quota))
            where = f"beside {replicas} replicas, quota {chosen.quota}" if replicas else "alone"
            print(f"round {number + 1}/{chosen.rounds}  {chosen.jobs} jobs {where}: {_line(outcomes[-1])}")
    ratio = _middle([one.median for one in beside]) / _middle([one.median for one in alone])
    slower = _middle([one.last for one in beside]) / _middle([one.last for one in alone])
    print(
        f"small jobs beside the large one: {ratio:.2f}x the median delay, {slower:.2f}x until the last runs"
    )


def _measure(jobs: int, replicas: int, quota: int) -> Outcome:
    with arenas.fresh() as arena:
        arena.define_for_us()
        warm_up(arena)
        _allow(arena, quota)
        watched = Jobs(arena.kubeconfig)
        port = _free_port()
        with _operator(arena, port) as operator, _stalls(port) as stalls:
            _await_lead(arena)
            before, began = _requests(arena), time.monotonic()
            if replicas:
                _submit_large(arena, replicas)
                time.sleep(HEAD_START)
            submitted = time.monotonic()
            arena.load(jobs, workers=1)
            _until(lambda: len(watched.times["Running"]) >= jobs)
            delays = [one - submitted for one in watched.times["Running"].values()]
            time.sleep(max(0.0, began + COUNTED - time.monotonic()))
            sent = _requests(arena) - before
            return Outcome(
                median=statistics.median(delays),
                last=max(delays),
                seconds=time.monotonic() - began,
                requests=sent.total(),
                refused=sent["refused"],
                pods=_count(arena, "pods"),
                services=_count(arena, "services"),
                transitions=_lease(arena)["leaseTransitions"] - 1,  # The first is the beginning.
                stall=max(stalls),
                cpu=observing.cpu_seconds(operator),
                peak=observing.peak_megabytes(operator),
            )


def _allow(arena: Arena, pods: int) -> None:
    arena.line.call("POST", "/api/v1/namespaces", {"metadata": {"name": CROWDED}})
    quotas = f"/api/v1/namespaces/{CROWDED}/resourcequotas"
    hard = {"pods": str(pods)}
    arena.line.call("POST", quotas, {"metadata": {"name": "small"}, "spec": {"hard": hard}})
    # No controller is there to do it; from here on the API server counts by itself.
    status = {"status": {"hard": hard, "used": {"pods": "0"}}}
    arena.line.call("PATCH", f"{quotas}/small/status", status, Content_Type="application/merge-patch+json")


def _submit_large(arena: Arena, replicas: int) -> None:
    job = manifests.job(0, replicas)
    job["metadata"] = {"name": "large", "namespace": CROWDED}
    arena.line.call("POST", manifests.JOBS.replace(manifests.NAMESPACE, CROWDED), job)


@contextlib.contextmanager
def _operator(arena: Arena, port: int) -> Iterator[Process]:
    words = [str(BIN / "bireme"), "operator", "--kubeconfig", str(arena.kubeconfig)]
    words += ["--lease-namespace", manifests.NAMESPACE, "--health-port", "0", "--metrics-port", str(port)]
    process = processes.spawn("operator", words, arena.folder / "operator.log")
    try:
        yield process
    finally:
        processes.end([process])


@contextlib.contextmanager
def _stalls(port: int) -> Iterator[list[float]]:
    """How long the operator took to answer, again and again."""
    seconds = [0.0]
    stop = threading.Event()

    def ask() -> None:
        while not stop.wait(0.05):
            began = time.monotonic()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
                    answer.read()
            except OSError:
                continue  # It has not begun yet.
            seconds.append(time.monotonic() - began)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield seconds
    finally:
        stop.set()
        asking.join()


def _await_lead(arena: Arena) -> None:
    _until(lambda: arena.line.send(_get(_LEASE))[0] == 200)
    time.sleep(1.0)  # Its watches begin.


_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{manifests.NAMESPACE}/leases/bireme-operator"


def _get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: kubernetes\r\nContent-Length: 0\r\n\r\n".encode()


def _lease(arena: Arena) -> dict[str, int]:
    spec: dict[str, int] = arena.line.get(_LEASE)["spec"]
    return spec


def _requests(arena: Arena) -> Counter[str]:
    """Requests of the operator, by whether they were refused; the players' and observers' are left out."""
    counted: Counter[str] = Counter()
    for labels, value in _SENT.findall(arena.line.get("/metrics")):
        said = dict(_LABEL.findall(labels))
        ours = said["resource"] in ("pods", "services", "events", "tfjobs", "leases")
        is_status = said["subresource"] == "status" and said["resource"] == "pods"
        loads = said["resource"] == "tfjobs" and said["verb"] == "POST"
        if ours and not is_status and not loads and said["verb"] not in ("LIST", "WATCH"):
            counted["refused" if said["code"] in ("403", "429") else "taken"] += int(float(value))
    return counted


def _count(arena: Arena, resource: str) -> int:
    return len(arena.line.get(f"/api/v1/namespaces/{CROWDED}/{resource}")["items"] or ())


def _until(true: Callable[[], bool]) -> None:
    if not processes.until(true, PATIENCE):
        raise SystemExit(f"waited {PATIENCE:.0f} s in vain")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _line(one: Outcome) -> str:
    return (
        f"Running after {one.median:.1f} s (median), the last after {one.last:.1f} s; "
        f"{one.requests} requests ({one.requests / one.seconds:.1f} a second), {one.refused} refused; "
        f"{one.pods} pods and {one.services} services of the large job; "
        f"{one.transitions} transitions of the lease; loop stalled for at most {one.stall * 1000:.0f} ms; "
        f"CPU {one.cpu:.1f} s, peak {one.peak:.0f} MB"
    )


def _middle(values: list[float]) -> float:
    return statistics.median(values)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--replicas", type=int, default=5000, help="replicas of the large job")
    parser.add_argument("--quota", type=int, default=10, help="pods that are allowed to it")
    parser.add_argument("--jobs", type=int, default=100, help="small jobs, of one replica each")
    parser.add_argument("--rounds", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
