"""How an elastic job is scaled by its cluster: by Kubernetes' own controller, without any metrics."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.cluster.control_plane import Json, Plane, managed_plane
from tests.cluster.operator_fixtures import CRDS, Jobs, Operator, manifest, operator, until

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


def test_an_autoscaler_of_a_deployment_survives_a_job_of_its_name(jobs: Jobs, running: Operator) -> None:
    jobs.create(foreign_scaler())
    jobs.create(elastic())
    told = until(lambda: waiting(jobs), "the job to say why it waits")
    assert 'a HorizontalPodAutoscaler named "mnist" exists and is not of this job' in told

    jobs.patch("pytorchjob/mnist", {"spec": {"runPolicy": {"suspend": True}}})
    jobs.condition("pytorchjob/mnist", "Suspended")
    step_over(jobs)
    assert is_foreign(jobs)

    running.kill()
    running.start()
    step_over(jobs)
    assert is_foreign(jobs)
    jobs.delete("pytorchjob/mnist")
    until(lambda: "mnist" not in jobs.names("pytorchjobs"), "the job to go")
    assert is_foreign(jobs)


def test_what_took_the_names_of_a_job_s_objects_survives_its_end(jobs: Jobs, running: Operator) -> None:
    jobs.create(elastic())
    jobs.run_in_order(*workers(2))
    until(lambda: jobs.names("hpa") == ["mnist"], "the autoscaler")
    jobs.plane.asked("-n", jobs.namespace, "delete", "hpa/mnist", "service/mnist-worker-1")
    jobs.create(foreign_scaler())
    jobs.create(foreign_service())

    jobs.end("mnist-worker-0", 0)
    jobs.condition("pytorchjob/mnist", "Succeeded")
    jobs.pods_are()
    step_over(jobs)
    assert is_foreign(jobs)
    assert "mnist-worker-1" in jobs.names("services")

    running.kill()
    running.start()
    step_over(jobs)
    assert is_foreign(jobs)
    assert "mnist-worker-1" in jobs.names("services")


def foreign_scaler() -> Json:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "mnist"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "mnist"},
        "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 5, "metrics": [METRIC]},
    }


def foreign_service() -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "mnist-worker-1"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }


def is_foreign(jobs: Jobs) -> bool:
    return jobs.names("hpa") == ["mnist"] and "ownerReferences" not in jobs.object("hpa/mnist")["metadata"]


def waiting(jobs: Jobs) -> str:
    told = jobs.object("pytorchjob/mnist").get("status", {}).get("conditions", [])
    return next((str(one["message"]) for one in told if one["type"] == "Waiting"), "")


def step_over(jobs: Jobs) -> None:
    """Wait until the operator has served a job that was made later than everything else."""
    name = f"later-{next(_numbers)}"
    jobs.create(manifest("PyTorchJob", "pytorchReplicaSpecs", name=name, Master=None))
    until(lambda: f"{name}-master-0" in jobs.pods(), "the later job")


def replicas(jobs: Jobs) -> int:
    specs = jobs.object("pytorchjob/mnist")["spec"]["pytorchReplicaSpecs"]
    return int(specs["Worker"]["replicas"])
