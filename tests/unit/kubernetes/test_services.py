"""Services: one for each replica, found before it is ready."""

from __future__ import annotations

import pytest

from bireme.backends.kubernetes.objects import job_objects
from bireme.backends.kubernetes.objects.pod_builder import service
from tests.unit.kubernetes.making import V1, V1ALPHA2, V2BETA1, container, made, mpi, template


def test_a_replica_is_found_under_the_name_of_its_pod() -> None:
    ports = [{"name": "http", "containerPort": 8080}, {"containerPort": 9090}]
    job = made("TFJob", {"Worker": (2, template(container("tensorflow", ports=ports)))})
    marks = {
        "training.kubeflow.org/operator-name": "tfjob-controller",
        "training.kubeflow.org/job-name": "mnist",
        "training.kubeflow.org/replica-type": "worker",
        "training.kubeflow.org/replica-index": "0",
    }

    assert service(job.job, job.role("worker"), 0) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "mnist-worker-0",
            "namespace": "ml",
            "labels": marks,
            "ownerReferences": [job_objects.owner(job.job)],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": marks,
            "ports": [
                {"name": "http", "port": 8080, "targetPort": 8080},
                {"name": "tfjob-port", "port": 2222, "targetPort": 2222},
            ],
        },
    }


@pytest.mark.parametrize("kind", ["TFJob", "PyTorchJob", "PaddleJob", "JAXJob"])
def test_the_selector_fits_the_pod(kind: str) -> None:
    job = made(kind, {"Worker": (2, template())})
    made_of = service(job.job, job.role("worker"), 1)

    assert made_of is not None
    assert made_of["spec"]["selector"].items() <= job.pod("worker", 1)["metadata"]["labels"].items()
    assert not made_of["spec"]["selector"].items() <= job.pod("worker", 0)["metadata"]["labels"].items()


def test_a_number_with_two_names_is_listed_once() -> None:
    ports = [{"name": "one", "containerPort": 2222}, {"name": "two", "containerPort": 2222}]
    job = made("TFJob", {"Worker": (1, template(container("tensorflow", ports=ports)))})
    made_of = service(job.job, job.role("worker"), 0)

    assert made_of is not None
    assert made_of["spec"]["ports"] == [{"name": "one", "port": 2222, "targetPort": 2222}]


@pytest.mark.parametrize("version", [V1, V1ALPHA2])
def test_the_agent_needs_no_names(version: str) -> None:
    job = mpi(version)

    assert service(job.job, job.role("worker"), 0) is None


def test_all_of_v2beta1_share_one() -> None:
    job = mpi(V2BETA1)
    launcher, worker = (service(job.job, job.role(name), 0) for name in ("launcher", "worker"))

    assert launcher == worker
    assert worker is not None
    assert worker["metadata"]["name"] == "mnist"
    assert worker["metadata"]["labels"]["app"] == "mnist"
    assert worker["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {
            "training.kubeflow.org/operator-name": "mpi-operator",
            "training.kubeflow.org/job-name": "mnist",
        },
    }
    for role in ("launcher", "worker"):
        assert worker["spec"]["selector"].items() <= job.pod(role)["metadata"]["labels"].items()
