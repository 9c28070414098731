"""Names our own labels and annotations on the objects of a job, and the owner by which they go with it."""

from __future__ import annotations

from bireme.backends.kubernetes.objects.api_types import Object
from bireme.model.job import Job

ATTEMPT = "bireme.io/attempt"
"""On every pod that we make. Pods that another operator made for the same job have none, so that watches
select by `JOB_NAME`, which all of them carry."""
SUBMISSION = "bireme.io/submission"
"""The annotation by which a submission knows what it created itself: a request may be answered by a broken
connection, and its repetition by AlreadyExists."""
MAIN_CONTAINER = "bireme.io/main-container"
"""The annotation that names the container that trains, where that is not the first one."""


def written(labels: dict[str, str]) -> str:
    """Labels as a selector is written: `a=b,c=d`."""
    return ",".join(f"{name}={value}" for name, value in labels.items())


def owner(job: Job) -> Object:
    """The reference by which an object goes when its job does."""
    return {
        "apiVersion": job.api_version,
        "kind": job.kind,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
