"""How is a contestant watched without being disturbed: cheap questions, one watch, and the kernel's books."""

from __future__ import annotations

import os
import re
import threading
import time
from collections import Counter
from pathlib import Path

import msgspec
from msgspec import Struct
from tools.testcluster.processes import Process

from benchmarks.controller import manifests
from benchmarks.wire import Line, request
from bireme.errors import BadInput

_TICKS = os.sysconf("SC_CLK_TCK")
_PODS = f"/api/v1/namespaces/{manifests.NAMESPACE}/pods?limit=1"
_NAMES_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_COUNTED = frozenset({"pods", "services", "events", "tfjobs", "podgroups", "configmaps"})
_LINE = re.compile(r"apiserver_request_total\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class Pods:
    """Which pods are there."""

    def __init__(self, kubeconfig: Path) -> None:
        self._line = Line(kubeconfig)

    def count(self) -> int:
        answer = self._line.get(_PODS, Accept=_NAMES_ONLY)
        return len(answer["items"] or ()) + int(answer["metadata"].get("remainingItemCount", 0))

    def are_all(self, phase: str) -> bool:
        """Whether no pod is in another phase."""
        return not self._line.get(f"{_PODS}&fieldSelector=status.phase!={phase}", Accept=_NAMES_ONLY)["items"]


class Jobs:
    """When each job was first seen with a condition."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self.times: dict[str, dict[str, float]] = {
            "Created": {},
            "Running": {},
            "Succeeded": {},
            "Failed": {},
        }
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        """Watch until the server goes, because the run is over; it drops a watch that reads too slowly."""
        while True:
            try:
                line = Line(self._kubeconfig, patience=None)
                # Without a version it begins with everything that is there.
                for event in line.stream(request("GET", f"{manifests.JOBS}?watch=true")):
                    self._hear(event, time.monotonic())
            except (ConnectionRefusedError, BadInput):
                return
            except OSError:
                continue

    def _hear(self, line: bytes, now: float) -> None:
        job = _events.decode(line).object
        for condition in job.status.conditions:
            if condition.status == "True" and condition.type in self.times:
                self.times[condition.type].setdefault(job.metadata.name, now)


class _Metadata(Struct):
    name: str


class _Condition(Struct):
    type: str
    status: str


class _Status(Struct):
    conditions: list[_Condition] = []


class _Job(Struct):
    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)


class _Event(Struct):
    object: _Job


_events = msgspec.json.Decoder(_Event)


def requests(line: Line) -> Counter[str]:
    """Count requests by verb and resource, by the API server's own metrics.

    Left out are lists and watches, which are the observer's too, and the reports of the played kubelet.
    """
    counted: Counter[str] = Counter()
    for labels, value in _LINE.findall(line.get("/metrics")):
        said = dict(_LABEL.findall(labels))
        what = "/".join(filter(None, (said["resource"], said["subresource"])))
        if said["resource"] in _COUNTED and said["verb"] not in ("LIST", "WATCH") and what != "pods/status":
            counted[f"{said['verb']} {what}"] += int(float(value))
    return counted


def cpu_seconds(process: Process) -> float:
    """What a process has used so far."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def peak_megabytes(process: Process) -> float:
    """The most memory that a process had at a time."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0
