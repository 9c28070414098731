"""How does a cluster grow and shrink an elastic PyTorchJob by itself: its HorizontalPodAutoscaler."""

from __future__ import annotations

from bireme.backends.kubernetes import labels
from bireme.backends.kubernetes.raw import Object
from bireme.kinds import pytorch
from bireme.model.job import Job, Kind

API_VERSION = "autoscaling/v2"
PLURAL = "horizontalpodautoscalers"


def autoscaler(job: Job) -> Object | None:
    """The autoscaler of a job whose elastic policy names metrics; None for every other job.

    A suspended job has none: it would be scaled up from nothing.
    """
    if job.kind is not Kind.PYTORCH or job.policy.suspend:
        return None
    elastic = pytorch.options(job).elastic_policy
    if elastic is None or not elastic.metrics:
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
