"""Whole jobs or nothing: how the real gang schedulers place our pods on real nodes.

Only `make soak` runs it, because the schedulers take minutes to build and a cluster of their own to run.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster import operator_fixtures
from tests.cluster.examples import EXAMPLES, adapted
from tests.cluster.gang_scheduler_processes import GROUPS, PLUGINS, VOLCANO, gang_scheduler
from tests.cluster.harness import PYTHON, Cluster, Json, Kubectl
from tests.cluster.operator_fixtures import CRDS, manifest, until
from tests.cluster.test_examples import ended

pytestmark = pytest.mark.soak

MEET = """
import os, socket, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
while rank:
    try:
        socket.create_connection(place, 5).recv(1)
        break
    except OSError:
        time.sleep(0.2)
else:
    with socket.create_server(("", place[1])) as server:
        met = [server.accept()[0] for _ in range(size - 1)]
    print("met", len(met), flush=True)
"""


@pytest.fixture(scope="module")
def cluster(breakable: Cluster) -> Cluster:
    """One of our own, because others would see the schedulers' definitions."""
    for file in CRDS:
        breakable.kubectl("apply", "-f", str(file))
    return breakable


@pytest.fixture(scope="module", params=[PLUGINS, VOLCANO])
def scheduler(
    cluster: Cluster, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    name: str = request.param
    folder = tmp_path_factory.mktemp("scheduler")
    options = ("--no-leader-elect", "--gang-scheduler-name", name)
    with (
        gang_scheduler(name, cluster, folder),
        operator_fixtures.operator(cluster.kubeconfig, folder / "log", *options),
    ):
        yield name


def gang(workers: int) -> Json:
    """A job whose replicas take four CPUs each: two of them fill a node of nine."""
    need = {"requests": {"cpu": "4"}}
    container = {"name": "main", "image": PYTHON, "command": ["python3", "-c", MEET], "resources": need}
    role = {"restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
    return manifest("PyTorchJob", "pytorchReplicaSpecs", Master=role, Worker={**role, "replicas": workers})


def blocker() -> Json:
    """A pod of somebody else that takes the place of one replica."""
    need = {"requests": {"cpu": "4"}}
    container = {"name": "main", "image": PYTHON, "command": ["sleep", "600"], "resources": need}
    spec = {"containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "blocker"}, "spec": spec}


def pods(kubectl: Kubectl) -> list[Json]:
    found: list[Json] = kubectl.object("pods")["items"]
    return found


def test_a_gang_that_fits_is_placed_and_succeeds(kubectl: Kubectl, scheduler: str) -> None:
    job = gang(workers=2)

    kubectl.apply(job)

    assert ended(kubectl, job) == "Succeeded"
    assert kubectl.logs("mnist-master-0") == "met 2\n"
    assert len({one["spec"]["nodeName"] for one in pods(kubectl)}) == 2
    until(lambda: kubectl.object(GROUPS[scheduler])["items"] == [], "the group to go")


@pytest.mark.usefixtures("scheduler")
def test_of_a_gang_that_does_not_fit_nobody_is_placed_until_it_does(kubectl: Kubectl) -> None:
    kubectl.apply(blocker())
    kubectl.wait("--for=condition=Ready", "pod/blocker")
    job = gang(workers=3)
    kubectl.apply(job)

    told = until(lambda: waiting(kubectl), "the job to say what it waits for")
    assert [one["metadata"]["name"] for one in pods(kubectl) if one["spec"].get("nodeName")] == ["blocker"]
    assert "gang" in told

    kubectl("delete", "pod/blocker", "--grace-period=1")

    assert ended(kubectl, job) == "Succeeded"


@pytest.mark.usefixtures("scheduler")
def test_a_launcher_follows_its_workers(kubectl: Kubectl) -> None:
    job = adapted(EXAMPLES / "mpi-ring/mpijob-v1.yaml", kubectl.namespace)

    kubectl.apply(job)

    assert ended(kubectl, job) == "Succeeded"
    assert "correct=True" in kubectl.logs(f"{job['metadata']['name']}-launcher")


def waiting(kubectl: Kubectl) -> str:
    """What the job says once all of its four pods are known to have no place."""
    if sum(_is_unschedulable(one) for one in pods(kubectl)) < 4:
        return ""
    conditions = kubectl.object("pytorchjob/mnist").get("status", {}).get("conditions", [])
    return next((str(one["message"]) for one in conditions if one["type"] == "Waiting"), "")


def _is_unschedulable(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)
