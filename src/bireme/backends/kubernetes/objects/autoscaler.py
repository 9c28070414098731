"""Builds the HorizontalPodAutoscaler by which a cluster scales an elastic PyTorchJob."""

from __future__ import annotations

from bireme.backends.kubernetes.objects import labels
from bireme.backends.kubernetes.objects.api_types import Object
from bireme.kinds import pytorch
from bireme.model.job import Job, Kind

API_VERSION = "autoscaling/v2"
PLURAL = "horizontalpodautoscalers"


def scales(job: Job) -> bool:
    """Whether the job's elastic policy names the metrics to scale by."""
    return _scaled(job) is not None


def autoscaler(job: Job) -> Object | None:
    """The autoscaler of a job whose elastic policy names metrics; None for every other job.

    A suspended job has none: it would be scaled up from nothing.
    """
    elastic = _scaled(job)
    if elastic is None or job.policy.suspend:
        return None
    return {
        "apiVersion": API_VERSION,
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": job.name, "namespace": job.namespace, "ownerReferences": [labels.owner(job)]},
        "spec": {
            "scaleTargetRef": {"apiVersion": job.api_version, "kind": str(job.kind), "name": job.name},
            "minReplicas": elastic.min_replicas,
            "maxReplicas": elastic.max_replicas,
            "metrics": list(elastic.metrics),
        },
    }


def _scaled(job: Job) -> pytorch.ElasticPolicy | None:
    if job.kind is not Kind.PYTORCH:
        return None
    elastic = pytorch.options(job).elastic_policy
    return elastic if elastic is not None and elastic.metrics else None
