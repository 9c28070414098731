"""Reads the object of a job, of which only what we act on is decoded, and marks the objects that it owns."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from bireme.backends.kubernetes.objects.api_types import Meta, Object
from bireme.errors import BadManifest
from bireme.kinds.contract import GROUP
from bireme.model.decode_errors import DAMAGED
from bireme.model.job import Job

SERVED_VERSION = "servedVersion"
"""The field of a spec that tells in which version a job was written, where a kind has several."""
ATTEMPT = "bireme.io/attempt"
"""On every pod that we make. Pods that another operator made for the same job have none, so that watches
select by `JOB_NAME`, which all of them carry."""
SUBMISSION = "bireme.io/submission"
"""The annotation by which a submission knows what it created itself: a request may be answered by a broken
connection, and its repetition by AlreadyExists."""
MAIN_CONTAINER = "bireme.io/main-container"
"""The annotation that names the container that trains, where that is not the first one."""


class JobObject(Struct, frozen=True):
    """A job as the API keeps it; spec and status are decoded by the modules that need them."""

    apiVersion: str = ""
    kind: str = ""
    metadata: Meta = Meta()
    spec: Raw = Raw(b"{}")
    status: Raw = Raw(b"")


def manifest(job: JobObject) -> dict[str, Any]:
    """The manifest that a user would have written to get this job; raises BadManifest if it has no spec."""
    try:
        spec = msgspec.json.decode(job.spec, type=dict[str, Any])
    except DAMAGED as error:
        raise BadManifest(f"its spec cannot be read: {error}", where=job.metadata.name) from error
    version = spec.pop(SERVED_VERSION, None)
    metadata: dict[str, Any] = {"name": job.metadata.name, "namespace": job.metadata.namespace}
    if job.metadata.labels:
        metadata["labels"] = job.metadata.labels
    if job.metadata.annotations:
        metadata["annotations"] = job.metadata.annotations
    return {
        "apiVersion": f"{GROUP}/{version}" if version else job.apiVersion,
        "kind": job.kind,
        "metadata": metadata,
        "spec": spec,
    }


def selector(labels: dict[str, str]) -> str:
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
