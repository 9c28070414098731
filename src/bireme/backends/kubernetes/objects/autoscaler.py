"""Makes the HorizontalPodAutoscaler by which a cluster scales an elastic job by itself."""

from __future__ import annotations

from bireme import kinds
from bireme.backends.kubernetes.objects import labels
from bireme.backends.kubernetes.objects.api_types import Object
from bireme.model.job import Job

API_VERSION = "autoscaling/v2"
PLURAL = "horizontalpodautoscalers"


def scales(job: Job) -> bool:
    """Whether the cluster may scale the job by itself."""
    return kinds.of(job).autoscaling(job) is not None


def autoscaler(job: Job) -> Object | None:
    """The autoscaler of a job; one that is suspended has none, or it would be scaled up from nothing."""
    scaling = kinds.of(job).autoscaling(job)
    if scaling is None or job.policy.suspend:
        return None
    return {
        "apiVersion": API_VERSION,
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": job.name, "namespace": job.namespace, "ownerReferences": [labels.owner(job)]},
        "spec": {
            "scaleTargetRef": {"apiVersion": job.api_version, "kind": job.kind, "name": job.name},
            "minReplicas": scaling.least,
            "maxReplicas": scaling.most,
            "metrics": list(scaling.metrics),
        },
    }
