"""An operator over a real API server, and pods that are played by hand."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.control_plane import Json, Plane

ROOT = Path(__file__).parents[2]
CRDS = sorted((ROOT / "deploy" / "crds").glob("*.kubeflow.org.yaml"))
PATIENCE = 60.0
RUNNING: Json = {
    "phase": "Running",
    "podIP": "10.1.2.3",
    "conditions": [{"type": "Ready", "status": "True"}],
}


def until(true: Callable[[], Any], what: str = "") -> Any:
    """Wait until something holds, and return it."""
    due = time.monotonic() + PATIENCE
    while not (found := true()):
        assert time.monotonic() < due, f"waited {PATIENCE:.0f} s in vain for {what or true}"
        time.sleep(0.05)
    return found


class Operator:
    """A `bireme operator` of our own, as a process."""

    def __init__(self, kubeconfig: Path, log: Path, *options: str) -> None:
        self._command = [
            *(sys.executable, "-m", "bireme.cli", "operator", "--kubeconfig", str(kubeconfig)),
            *("--health-port", "0", "--metrics-port", "0", *(options or ("--no-leader-elect",))),
        ]
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, cwd=ROOT)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def lines(self) -> list[Json]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def _end(self, how: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(how)
        code = self.process.wait(PATIENCE)
        self.process = None
        return code


@contextlib.contextmanager
def operator(kubeconfig: Path, log: Path, *options: str) -> Iterator[Operator]:
    one = Operator(kubeconfig, log, *options)
    one.start()
    try:
        yield one
    finally:
        if one.process is not None:
            one.kill()


class Jobs:
    """The jobs of one namespace, seen as a user sees them."""

    def __init__(self, plane: Plane, namespace: str) -> None:
        self.plane, self.namespace = plane, namespace
        plane.asked("create", "namespace", namespace)

    def create(self, manifest: Json) -> None:
        self._asked("create", "-f", "-", stdin=yaml.safe_dump(manifest))

    def patch(self, what: str, patch: Json, *words: str) -> None:
        self._asked("patch", what, "--type=merge", "-p", json.dumps(patch), *words)

    def delete(self, *words: str) -> None:
        self._asked("delete", *words, "--wait=false")

    def object(self, what: str) -> Json:
        return json.loads(self._asked("get", what, "-o", "json"))

    def objects(self, resource: str) -> list[Json]:
        found: list[Json] = json.loads(self._asked("get", resource, "-o", "json"))["items"]
        return found

    def names(self, resource: str) -> list[str]:
        return [word.partition("/")[2] for word in self._asked("get", resource, "-o", "name").split()]

    def pods(self) -> list[str]:
        return self.names("pods")

    def pods_are(self, *names: str) -> None:
        until(lambda: self.pods() == sorted(names), f"pods {sorted(names)}")

    def run_in_order(self, *pods: str) -> None:
        """Let pods run one after the other, each as soon as it is there."""
        for pod in pods:
            until(lambda: pod in self.pods(), f"pod {pod}")  # noqa: B023, it is called before the next
            self.run(pod)

    def play(self, pod: str, status: Json) -> None:
        """Say of a pod what its kubelet would say."""
        self.patch(f"pod/{pod}", {"status": status}, "--subresource=status")

    def run(self, *pods: str) -> None:
        for pod in pods:
            self.play(pod, RUNNING)

    def end(
        self, pod: str, code: int, container: str = "main", reason: str = "Error", message: str = ""
    ) -> None:
        told = {"message": message} if message else {}
        ended = {"terminated": {"exitCode": code, "reason": "Completed" if code == 0 else reason, **told}}
        status = {
            "name": container,
            "image": "x",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": ended,
        }
        self.play(pod, {"phase": "Failed" if code else "Succeeded", "containerStatuses": [status]})

    def conditions(self, job: str) -> list[str]:
        """The conditions in their order; one that does not hold has a dash."""
        told = self.object(job).get("status", {}).get("conditions", [])
        return [one["type"] if one["status"] == "True" else f"-{one['type']}" for one in told]

    def condition(self, job: str, type: str) -> Json:
        """The condition once it holds."""
        return until(lambda: self._holding(job, type), f"{job} to be {type}")

    def becomes(self, job: str, *conditions: str) -> None:
        until(lambda: self.conditions(job) == list(conditions), f"{job} to be {conditions}")

    def events(self, job: str) -> list[str]:
        items = json.loads(self._asked("get", "events", "-o", "json"))["items"]
        return [f"{one['reason']}: {one['message']}" for one in items if one["involvedObject"]["name"] == job]

    def _holding(self, job: str, type: str) -> Json:
        told = self.object(job).get("status", {}).get("conditions", [])
        return next((one for one in told if one["type"] == type and one["status"] == "True"), None)

    def _asked(self, *words: str, stdin: str = "") -> str:
        return self.plane.asked("-n", self.namespace, *words, stdin=stdin)


def manifest(
    kind: str, field: str, *, name: str = "mnist", policy: Json | None = None, **roles: Json
) -> Json:
    """A manifest of a Kubeflow kind whose containers are called `main`."""
    specs = {type: {"template": template(), **(spec or {})} for type, spec in roles.items()}
    spec = {field: specs, **({"runPolicy": policy} if policy else {})}
    return {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def template(**container: Json) -> Json:
    one = {"name": "main", "image": "example/train:1", "command": ["python", "train.py"], **container}
    return {"spec": {"containers": [one]}}
