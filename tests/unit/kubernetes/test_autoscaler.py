"""Autoscalers: only for an elastic PyTorchJob that names metrics."""

from __future__ import annotations

import pytest

from bireme.backends.kubernetes.objects import job_objects
from bireme.backends.kubernetes.owned_objects import autoscaler
from tests.unit.kubernetes.making import Made, Object, made, mpi, template

METRICS = [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]


def torch(elastic: Object | None, suspend: bool = False) -> Made:
    policy = {"elasticPolicy": elastic} if elastic is not None else {}
    return made("PyTorchJob", {"Worker": (2, template())}, runPolicy={"suspend": suspend}, **policy)  # type: ignore[arg-type]


def test_an_elastic_job_is_scaled_by_its_metrics() -> None:
    job = torch({"minReplicas": 1, "maxReplicas": 5, "metrics": METRICS}).job

    assert autoscaler(job) == {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "mnist", "namespace": "ml", "ownerReferences": [job_objects.owner(job)]},
        "spec": {
            "scaleTargetRef": {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "mnist"},
            "minReplicas": 1,
            "maxReplicas": 5,
            "metrics": METRICS,
        },
    }


@pytest.mark.parametrize(
    "job",
    [
        torch(None),
        torch({"minReplicas": 1, "maxReplicas": 5}),
        torch({"minReplicas": 1, "maxReplicas": 5, "metrics": METRICS}, suspend=True),
        mpi(),
    ],
)
def test_no_other_job_is(job: Made) -> None:
    assert autoscaler(job.job) is None
