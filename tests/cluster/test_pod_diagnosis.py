"""The troubles of real pods are recognised, from what a real scheduler, kubelet and runtime say."""

from __future__ import annotations

import time
from typing import TypeVar

import msgspec
import pytest

from bireme.backends.kubernetes.objects.api_types import NodeObject, Pod
from bireme.backends.kubernetes.observe import pod_status
from bireme.model.replicas import Loss, Replica, ReplicaPhase
from tests.cluster.harness import PYTHON, Json, Kubectl

PATIENCE = 60.0
T = TypeVar("T")


def pod(name: str, *command: str, spec: Json = None, **fields: Json) -> Json:
    main = {"name": "main", "image": PYTHON, "command": list(command or ("true",)), **fields}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "containers": [main], **(spec or {})},
    }


HUNGRY = "x = []\nwhile True: x.append(bytes(10_000_000))"
TROUBLED: dict[str, tuple[Json, str]] = {
    "image": (
        pod("image", image="nowhere.invalid/none:1"),
        "the registry of image nowhere.invalid/none:1 does not answer node",
    ),
    "never": (
        pod("never", image="bireme.test/none:1", imagePullPolicy="Never"),
        "image bireme.test/none:1 is not on node",
    ),
    "name": (pod("name", image="NOT A NAME"), "NOT A NAME is not the name of an image"),
    "room": (
        pod("room", resources={"requests": {"cpu": "1000"}}),
        "it asks for cpu: 1k; ask for less, or add a node that has it",
    ),
    "device": (
        pod("device", resources={"limits": {"example.com/none": 3}}),
        "it asks for example.com/none: 3; ask for less, or add a node that has it",
    ),
    "labels": (
        pod("labels", spec={"nodeSelector": {"no": "such"}}),
        "no node has the labels that it asks for",
    ),
    "claim": (
        pod("claim", spec={"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "none"}}]}),
        "has no PersistentVolumeClaim none; create it",
    ),
    "gated": (pod("gated", spec={"schedulingGates": [{"name": "a.b/c"}]}), "waits for its scheduling gates"),
    "config": (
        pod("config", envFrom=[{"configMapRef": {"name": "none"}}]),
        "container main needs the ConfigMap none, which namespace",
    ),
    "program": (
        pod("program", "no-such-program"),
        "the image of container main has no program no-such-program",
    ),
    "crash": (pod("crash", "sh", "-c", "exit 3"), "container main exited with code 3; see `kubectl logs -n"),
    "words": (
        pod(
            "words",
            "sh",
            "-c",
            "echo the last words; exit 1",
            terminationMessagePolicy="FallbackToLogsOnError",
        ),
        "container main exited with code 1: the last words; see",
    ),
    "again": (
        pod("again", "sh", "-c", "exit 4", spec={"restartPolicy": "OnFailure"}),
        "exited with code 4; see `kubectl logs",
    ),
    "memory": (
        pod("memory", "python3", "-c", HUNGRY, resources={"limits": {"memory": "50Mi"}}),
        "container main used more than its memory limit of 50Mi; raise resources.limits.memory",
    ),
    "init": (
        pod("init", spec={"initContainers": [{"name": "first", "image": PYTHON, "command": ["false"]}]}),
        "init container first exited with code 1",
    ),
}
FINAL = {
    "program": (None, Loss.CRASH),
    "crash": (3, Loss.CRASH),
    "words": (1, Loss.CRASH),
    "memory": (137, Loss.CRASH),
    "init": (1, Loss.CRASH),
}


@pytest.mark.slow
def test_every_trouble_is_told_with_the_next_step(kubectl: Kubectl) -> None:
    kubectl.apply(*(made for made, _ in TROUBLED.values()))

    missing = dict(TROUBLED)
    found: dict[str, Replica] = {}
    end = time.monotonic() + PATIENCE
    while missing and time.monotonic() < end:
        found = seen(kubectl)
        missing = {name: one for name, one in missing.items() if one[1] not in found[name].message}
        time.sleep(0.5)

    assert {name: (wanted, found[name]) for name, (_, wanted) in missing.items()} == {}
    for name, (code, loss) in FINAL.items():
        one = found[name]
        assert (one.phase, one.loss) == (ReplicaPhase.FAILED, loss), name
        assert code is None or one.exit_code == code, name


def seen(kubectl: Kubectl) -> dict[str, Replica]:
    nodes = {one.metadata.name: one for one in _items(kubectl, "nodes", NodeObject)}
    pods = _items(kubectl, "pods", Pod)
    return {one.metadata.name: pod_status.replica(one, nodes.get(one.spec.nodeName)) for one in pods}


def _items(kubectl: Kubectl, what: str, type: type[T]) -> list[T]:
    return [msgspec.convert(one, type) for one in kubectl.object(what)["items"]]
