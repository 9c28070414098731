"""How jobs wait for the real Kueue, run when it lets them, and make room when it says so."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.cluster import kueue_process
from tests.cluster.control_plane import Json, Plane, managed_plane
from tests.cluster.kueue_process import POOL, PRIORITY_LABEL, open_queue, queued, says
from tests.cluster.operator_fixtures import CRDS, Jobs, manifest, operator, until

_numbers = itertools.count()
WORKERS = {"replicas": 1, "restartPolicy": "Never"}


@pytest.fixture(scope="module")
def server() -> Iterator[Plane]:
    with managed_plane("kueue") as one:
        one("apply", *(f"--filename={file}" for file in CRDS))
        yield one


@pytest.fixture(scope="module")
def kueue(server: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The real one, and our operator beside it."""
    folder = tmp_path_factory.mktemp("kueue")
    with kueue_process.kueue(server, folder), operator(server.kubeconfig, folder / "operator.log"):
        yield


@pytest.fixture
def jobs(server: Plane, kueue: None) -> Jobs:
    return Jobs(server, f"team-{next(_numbers)}")


def pytorch(name: str, **labels: str) -> Json:
    """A job of two replicas, and so of two CPUs."""
    job = manifest("PyTorchJob", "pytorchReplicaSpecs", Master=WORKERS, Worker=WORKERS)
    return queued(job, name, **labels)


def run(jobs: Jobs, name: str) -> None:
    """Let both replicas of a job run, the master first."""
    jobs.run_in_order(f"{name}-master-0", f"{name}-worker-0")
    jobs.condition(f"pytorchjob/{name}", "Running")


def test_a_job_waits_until_the_one_before_it_has_finished(jobs: Jobs) -> None:
    open_queue(jobs, cpus=2)
    jobs.create(pytorch("first"))
    run(jobs, "first")

    jobs.create(pytorch("second"))

    jobs.becomes("pytorchjob/second", "Created", "Suspended")
    assert says(jobs, "first", "Admitted")
    until(lambda: says(jobs, "first", "PodsReady"), "Kueue to see the pods")
    assert not says(jobs, "second", "QuotaReserved")
    assert active(jobs, "second") == 0
    assert jobs.pods() == ["first-master-0", "first-worker-0"]

    jobs.end("first-master-0", 0)

    finished = until(lambda: says(jobs, "first", "Finished"), "Kueue to see the end")
    assert finished["message"] == jobs.condition("pytorchjob/first", "Succeeded")["message"]
    run(jobs, "second")
    jobs.becomes("pytorchjob/second", "Created", "-Suspended", "Running")
    assert jobs.object("pod/second-worker-0")["spec"]["nodeSelector"] == POOL  # Kueue chose these nodes.


def test_a_running_job_makes_room_for_a_more_urgent_one_and_comes_back(jobs: Jobs) -> None:
    open_queue(jobs, cpus=2)
    jobs.create(pytorch("patient"))
    run(jobs, "patient")

    jobs.create(pytorch("urgent", **{PRIORITY_LABEL: f"{jobs.namespace}-urgent"}))

    jobs.becomes("pytorchjob/patient", "Created", "-Running", "Suspended")
    until(lambda: not [pod for pod in jobs.pods() if pod.startswith("patient")], "its pods to go")
    assert active(jobs, "patient") == 0
    assert until(lambda: says(jobs, "patient", "Evicted"))["reason"] == "Preempted"

    run(jobs, "urgent")
    assert not says(jobs, "patient", "QuotaReserved")
    jobs.end("urgent-master-0", 0)

    run(jobs, "patient")
    jobs.becomes("pytorchjob/patient", "Created", "-Suspended", "Running")
    assert says(jobs, "patient", "Admitted")
    assert not says(jobs, "patient", "Evicted")


@pytest.mark.parametrize(
    ("kind", "field", "pods"),
    [
        ("TFJob", "tfReplicaSpecs", ["mnist-worker-0"]),
        ("JAXJob", "jaxReplicaSpecs", ["mnist-worker-0"]),
        ("PaddleJob", "paddleReplicaSpecs", ["mnist-worker-0"]),
        ("XGBoostJob", "xgbReplicaSpecs", ["mnist-master-0", "mnist-worker-0"]),
    ],
)
def test_every_kind_waits_and_runs(jobs: Jobs, kind: str, field: str, pods: list[str]) -> None:
    roles: dict[str, Json] = {pod.split("-")[1].title(): WORKERS for pod in pods}
    resource = f"{kind.lower()}/mnist"
    jobs.create(queued(manifest(kind, field, **roles), "mnist"))
    jobs.becomes(resource, "Created", "Suspended")

    open_queue(jobs, cpus=2)

    jobs.run_in_order(*pods)
    jobs.becomes(resource, "Created", "-Suspended", "Running")
    jobs.end(pods[0], 0)
    until(lambda: says(jobs, "mnist", "Finished"), "Kueue to see the end")


@pytest.mark.parametrize("version", ["v2beta1", "v1"])
def test_an_mpijob_waits_and_runs(jobs: Jobs, version: str) -> None:
    job = manifest("MPIJob", "mpiReplicaSpecs", Launcher={}, Worker={"replicas": 1})
    job["apiVersion"] = f"kubeflow.org/{version}"
    jobs.create(queued(job, "ring"))
    jobs.becomes("mpijob/ring", "Created", "Suspended")

    open_queue(jobs, cpus=2)

    jobs.pods_are("ring-worker-0")
    jobs.run("ring-worker-0")
    launcher = "ring-launcher"
    jobs.pods_are(launcher, "ring-worker-0")
    jobs.run(launcher)
    jobs.becomes("mpijob/ring", "Created", "-Suspended", "Running")
    until(lambda: says(jobs, "ring", "PodsReady"), "Kueue to see the pods")
    jobs.end(launcher, 0)
    until(lambda: says(jobs, "ring", "Finished"), "Kueue to see the end")


def test_a_job_that_runs_in_another_cluster_is_left_alone(jobs: Jobs) -> None:
    open_queue(jobs, cpus=4)
    remote = pytorch("remote")
    remote["spec"]["runPolicy"] = {"managedBy": "kueue.x-k8s.io/multikueue"}
    jobs.create(remote)
    until(lambda: says(jobs, "remote", "Admitted"), "Kueue to let it run")

    jobs.create(pytorch("local"))

    run(jobs, "local")
    assert jobs.pods() == ["local-master-0", "local-worker-0"]
    assert "status" not in jobs.object("pytorchjob/remote")


def active(jobs: Jobs, name: str) -> int:
    """How many replicas count as active, as Kueue reads it."""
    status = jobs.object(f"pytorchjob/{name}")["status"]
    return sum(int(one.get("active", 0)) for one in status["replicaStatuses"].values())
