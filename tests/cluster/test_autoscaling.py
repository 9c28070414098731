"""How an elastic job is scaled by its cluster: by Kubernetes' own controller, without any metrics."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.cluster.operating import CRDS, Jobs, Operator, manifest, operator, until
from tests.cluster.planes import Json, Plane, managed_plane

_numbers = itertools.count()
TARGET = {"type": "Utilization", "averageUtilization": 80}
METRIC = {"type": "Resource", "resource": {"name": "cpu", "target": TARGET}}


@pytest.fixture(scope="module")
def server() -> Iterator[Plane]:
    with managed_plane("autoscaling") as one:
        one("apply", *(f"--filename={file}" for file in CRDS))
        yield one


@pytest.fixture(scope="module")
def running(server: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    with operator(server.kubeconfig, tmp_path_factory.mktemp("operator") / "log") as one:
        yield one


@pytest.fixture
def jobs(server: Plane, running: Operator) -> Jobs:
    return Jobs(server, f"team-{next(_numbers)}")


def elastic() -> Json:
    worker = {"replicas": 2, "restartPolicy": "OnFailure"}
    job = manifest("PyTorchJob", "pytorchReplicaSpecs", policy={"cleanPodPolicy": "All"}, Worker=worker)
    job["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 3, "metrics": [METRIC]}
    return job


def workers(count: int) -> list[str]:
    return [f"mnist-worker-{index}" for index in range(count)]


def test_the_cluster_keeps_an_elastic_job_within_its_bounds(jobs: Jobs) -> None:
    jobs.create(elastic())
    jobs.run_in_order(*workers(2))
    jobs.becomes("pytorchjob/mnist", "Created", "Running")
    scaler = jobs.object("hpa/mnist")
    assert scaler["spec"]["scaleTargetRef"]["kind"] == "PyTorchJob"
    assert (scaler["spec"]["minReplicas"], scaler["spec"]["maxReplicas"]) == (1, 3)

    jobs.plane.asked("-n", jobs.namespace, "scale", "pytorchjob/mnist", "--replicas=3")
    jobs.pods_are(*workers(3))
    jobs.run("mnist-worker-2")
    jobs.patch("pytorchjob/mnist", {"spec": {"elasticPolicy": {"maxReplicas": 2}}})

    jobs.pods_are(*workers(2))  # It was the cluster's controller that changed the job.
    assert jobs.object("hpa/mnist")["spec"]["maxReplicas"] == 2
    assert replicas(jobs) == 2
    until(lambda: jobs.object("hpa/mnist")["status"].get("desiredReplicas") == 2, "the controller to say so")


def test_a_job_that_is_put_aside_or_over_is_not_scaled(jobs: Jobs) -> None:
    jobs.create(elastic())
    jobs.run_in_order(*workers(2))
    until(lambda: jobs.names("hpa") == ["mnist"], "the autoscaler")

    jobs.patch("pytorchjob/mnist", {"spec": {"runPolicy": {"suspend": True}}})
    until(lambda: jobs.names("hpa") == [], "the autoscaler to go")
    jobs.pods_are()

    jobs.patch("pytorchjob/mnist", {"spec": {"runPolicy": {"suspend": False}}})
    jobs.run_in_order(*workers(2))
    until(lambda: jobs.names("hpa") == ["mnist"], "the autoscaler to come back")

    jobs.end("mnist-worker-0", 0)
    jobs.condition("pytorchjob/mnist", "Succeeded")
    until(lambda: jobs.names("hpa") == [], "the autoscaler to go")


def test_a_job_whose_metrics_are_taken_away_is_not_scaled_any_more(jobs: Jobs) -> None:
    jobs.create(elastic())
    jobs.run_in_order(*workers(2))
    jobs.becomes("pytorchjob/mnist", "Created", "Running")

    jobs.patch("pytorchjob/mnist", {"spec": {"elasticPolicy": {"metrics": None}}})

    until(lambda: jobs.names("hpa") == [], "the autoscaler to go")
    assert jobs.pods() == workers(2)


def test_an_autoscaler_that_a_killed_operator_left_is_removed(jobs: Jobs, running: Operator) -> None:
    jobs.create(elastic())
    jobs.run_in_order(*workers(2))
    scaler = until(lambda: jobs.names("hpa") and jobs.object("hpa/mnist"), "the autoscaler")
    jobs.end("mnist-worker-0", 0)
    until(lambda: jobs.names("hpa") == [], "the autoscaler to go")
    running.kill()
    jobs.create({**scaler, "metadata": {**scaler["metadata"], "resourceVersion": "", "uid": ""}})

    running.start()

    until(lambda: jobs.names("hpa") == [], "the autoscaler to go")


def replicas(jobs: Jobs) -> int:
    specs = jobs.object("pytorchjob/mnist")["spec"]["pytorchReplicaSpecs"]
    return int(specs["Worker"]["replicas"])
