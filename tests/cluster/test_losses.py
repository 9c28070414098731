"""What becomes of jobs whose ranks, pods and nodes are lost, and of those that cannot begin."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cluster import operator_fixtures
from tests.cluster.harness import PYTHON, Cluster, Json, Kubectl
from tests.cluster.operator_fixtures import CRDS, Operator, manifest
from tests.cluster.test_examples import ended

WAITS = """
import os, time
print("port", os.environ["MASTER_PORT"], flush=True)
time.sleep(600 if os.environ["ATTEMPT"] == "0" else 2)
"""
# Every rank but the first knocks without end; the first says of which attempt each visitor is.
KNOCKS = """
import os, socket, time
attempt, address = os.environ["ATTEMPT"], (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if os.environ["RANK"] == "0":
    server = socket.create_server(("", address[1]))
    server.settimeout(1)
    last = time.monotonic() + (30 if attempt == "1" else 300)
    while time.monotonic() < last:
        try:
            visitor, _ = server.accept()
            print("attempt", visitor.recv(9).decode(), "joined", flush=True)
        except OSError:
            pass
while os.environ["RANK"] != "0":
    try:
        with socket.create_connection(address, 1) as peer:
            peer.sendall(attempt.encode())
    except OSError:
        pass
    time.sleep(0.2)
"""
FAILS_ONCE = """
import os, sys, time
print("port", os.environ["MASTER_PORT"], flush=True)
if os.environ["ATTEMPT"] == "0":
    sys.exit(3) if os.environ["RANK"] == "1" else time.sleep(60)
"""


@pytest.fixture(scope="module")
def cluster(breakable: Cluster) -> Cluster:
    """One of our own, because its nodes lose their power."""
    return breakable


@pytest.fixture(scope="module", autouse=True)
def operator(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    for file in CRDS:
        cluster.kubectl("apply", "-f", str(file))
    with operator_fixtures.operator(cluster.kubeconfig, tmp_path_factory.mktemp("operator") / "log") as one:
        yield one


def job(program: str, *, gang: bool = True, **spec: Json) -> Json:
    """A PyTorchJob of a master and a worker that are kept on different nodes where there are two."""
    attempt = {"fieldRef": {"fieldPath": "metadata.labels['bireme.io/attempt']"}}
    container = {
        "name": "pytorch",
        "image": PYTHON,
        "command": ["python3", "-c", program],
        "env": [{"name": "ATTEMPT", "valueFrom": attempt}],
    }
    apart = {
        "weight": 100,
        "podAffinityTerm": {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"training.kubeflow.org/job-name": "mnist"}},
        },
    }
    pod = {
        "containers": [container],
        "terminationGracePeriodSeconds": 2,
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [apart]}},
        **spec,
    }
    role = {"restartPolicy": "OnFailure", "template": {"spec": pod}}
    one = manifest("PyTorchJob", "pytorchReplicaSpecs", Master=role, Worker=role)
    if gang:
        one["metadata"]["annotations"] = {"bireme.io/restart": "gang"}
    return one


def until(true: Callable[[], Any], what: str, patience: float = 90.0) -> Any:
    due = time.monotonic() + patience
    while not (found := true()):
        assert time.monotonic() < due, f"waited {patience:.0f} s in vain for {what}"
        time.sleep(0.2)
    return found


def nodes(kubectl: Kubectl) -> dict[str, str]:
    """The node of each pod that runs."""
    pods = kubectl.object("pods")["items"]
    return {
        one["metadata"]["name"]: one["spec"]["nodeName"]
        for one in pods
        if one["status"]["phase"] == "Running"
    }


def waiting(kubectl: Kubectl) -> str:
    conditions = kubectl.object("pytorchjob/mnist").get("status", {}).get("conditions", [])
    return next((str(one["message"]) for one in conditions if one["type"] == "Waiting"), "")


def test_a_rank_that_fails_takes_its_gang_into_the_next_attempt(kubectl: Kubectl) -> None:
    kubectl.apply(one := job(FAILS_ONCE))

    assert ended(kubectl, one) == "Succeeded"

    memory = kubectl.object("pytorchjob/mnist")["status"]["bireme"]
    assert (memory["attempt"], memory["crashes"]) == (1, 1)
    assert kubectl.logs("mnist-master-0") == "port 23456\n"


def test_half_a_gang_loses_its_node_and_the_job_goes_on_upon_the_other(
    cluster: Cluster, kubectl: Kubectl
) -> None:
    kubectl.apply(one := job(WAITS))
    placed = until(lambda: found if len(found := nodes(kubectl)) == 2 else None, "both to run")
    lost = placed["mnist-worker-0"]
    assert lost != placed["mnist-master-0"]

    cluster.kill_node(lost)
    try:
        assert ended(kubectl, one) == "Succeeded"
    finally:
        cluster.start_node(lost)

    memory = kubectl.object("pytorchjob/mnist")["status"]["bireme"]
    assert (memory["attempt"], memory["evictions"]) == (1, 1)
    # Whoever lives on behind the loss knocks at the old port.
    assert kubectl.logs("mnist-master-0") == "port 23457\n"


def test_a_rank_that_lives_on_behind_a_partition_cannot_join_the_next_attempt(
    cluster: Cluster, kubectl: Kubectl
) -> None:
    kubectl.apply(one := job(KNOCKS))
    placed = until(lambda: found if len(found := nodes(kubectl)) == 2 else None, "both to run")
    cut_off = placed["mnist-worker-0"]
    until(lambda: "attempt 0 joined" in kubectl.logs("mnist-master-0"), "the first meeting")

    cluster.unplug_node(cut_off)
    try:
        until(lambda: len(nodes(kubectl)) == 2 and cut_off not in nodes(kubectl).values(), "attempt 1 to run")
    finally:
        cluster.plug_node(cut_off)

    assert ended(kubectl, one) == "Succeeded"
    told = kubectl.logs("mnist-master-0").splitlines()
    assert told == ["attempt 1 joined"] * len(told)


def test_a_worker_whose_node_is_lost_is_replaced_while_its_peers_live(
    cluster: Cluster, kubectl: Kubectl
) -> None:
    kubectl.apply(job("import time; time.sleep(300)", gang=False))
    placed = until(lambda: found if len(found := nodes(kubectl)) == 2 else None, "both to run")
    lost, other = placed["mnist-worker-0"], placed["mnist-master-0"]

    cluster.kill_node(lost)
    try:
        until(lambda: nodes(kubectl).get("mnist-worker-0") == other, "the worker to run on the other node")
    finally:
        cluster.start_node(lost)

    assert kubectl.object("pytorchjob/mnist")["status"]["bireme"]["evictions"] == 1


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"nodeSelector": {"disk": "none"}}, "no node has the labels that it asks for"),
        (
            {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "absent"}}]},
            'persistentvolumeclaim "absent" not found',
        ),
        ({"containers": [{"name": "pytorch", "image": "bireme.test/absent:1"}]}, "bireme.test/absent:1"),
        (
            {
                "containers": [
                    {
                        "name": "pytorch",
                        "image": PYTHON,
                        "command": ["true"],
                        "envFrom": [{"configMapRef": {"name": "absent"}}],
                    }
                ]
            },
            "needs the ConfigMap absent",
        ),
        (
            {"containers": [{"name": "pytorch", "image": PYTHON, "resources": {"limits": {"cpu": "64"}}}]},
            "cpu",
        ),
    ],
    ids=["node selector", "claim", "image", "config map", "cpu"],
)
def test_why_it_cannot_begin_is_said_within_seconds(kubectl: Kubectl, spec: Json, words: str) -> None:
    kubectl.apply(job("pass", **spec))

    said = until(lambda: waiting(kubectl), "a reason", patience=30)

    assert words in said
    assert "mnist-master-0" in said
    events = kubectl.object("events")["items"]
    assert any(one["type"] == "Warning" and words in one["message"] for one in events)


def test_a_rank_that_is_out_of_memory_is_named(kubectl: Kubectl) -> None:
    hungry = {
        "name": "pytorch",
        "image": PYTHON,
        "command": ["python3", "-c", "b = bytearray(10**9)\nfor i in range(0, 10**9, 4096): b[i] = 1"],
        "resources": {"limits": {"memory": "100Mi"}},
    }
    one = job("pass", containers=[hungry])
    one["spec"]["runPolicy"] = {"backoffLimit": 0}
    kubectl.apply(one)

    assert ended(kubectl, one) == "Failed"

    status = kubectl.object("pod/mnist-master-0")["status"]["containerStatuses"][0]
    assert status["state"]["terminated"]["reason"] == "OOMKilled"


def test_a_gpu_that_is_tainted_is_tolerated_by_who_asks_for_it(cluster: Cluster, kubectl: Kubectl) -> None:
    node = cluster.nodes[-1]
    cluster.advertise(node, "nvidia.com/gpu", 1)
    cluster.kubectl("taint", "node", node, "nvidia.com/gpu=present:NoSchedule", "--overwrite")
    asks = {
        "name": "pytorch",
        "image": PYTHON,
        "command": ["true"],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    one = manifest("PyTorchJob", "pytorchReplicaSpecs", Master={"template": {"spec": {"containers": [asks]}}})
    try:
        kubectl.apply(one)

        assert ended(kubectl, one) == "Succeeded"
    finally:
        cluster.kubectl("taint", "node", node, "nvidia.com/gpu-")
