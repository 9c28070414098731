"""Jobs and pods as an API server gives them, for tests of what is made of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from bireme.backends.kubernetes.objects.api_types import Pod
from bireme.backends.kubernetes.objects.job_objects import JobObject

Json = dict[str, Any]

EPOCH = 1_800_000_000
"""The second from which tests count."""


def at(seconds: float) -> str:
    return datetime.fromtimestamp(EPOCH + int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def job(status: Json | None = None, *, kind: str = "PyTorchJob", workers: int = 1, **spec: Any) -> JobObject:
    """A job of a master and workers, or with another kind whatever its spec says."""
    template = {
        "spec": {"containers": [{"name": "pytorch", "image": "x", "command": ["python", "train.py"]}]}
    }
    roles = {
        "Master": {"replicas": 1, "restartPolicy": "Never", "template": template},
        "Worker": {"replicas": workers, "restartPolicy": "Never", "template": template},
    }
    body = {
        "apiVersion": "batch/v1" if kind == "Job" else "kubeflow.org/v1",
        "kind": kind,
        "metadata": {
            "name": "mnist",
            "namespace": "team",
            "uid": "job-uid",
            "creationTimestamp": at(0),
            "annotations": {"bireme.io/restart": "gang"} if kind != "Job" else {},
        },
        "spec": spec or {"pytorchReplicaSpecs": roles, "runPolicy": {"backoffLimit": 0}},
        "status": status or {},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=JobObject)


def condition(type: str, second: float, message: str = "", status: str = "True") -> Json:
    return {
        "type": type,
        "status": status,
        "reason": f"PyTorchJob{type}",
        "message": message,
        "lastUpdateTime": at(second),
        "lastTransitionTime": at(second),
    }


def failed(second: float) -> Json:
    """The status of a job that failed."""
    told = condition("Failed", second, "PyTorchJob mnist is failed because 1 Worker replica(s) failed.")
    return {
        "conditions": [condition("Created", 0), told],
        "startTime": at(0),
        "completionTime": at(second),
        "bireme": {"crashes": 1},
    }


def pod(short: str, state: Json | None = None, *, phase: str = "Running", **status: Any) -> Pod:
    """A pod of that job; `state` is its container's."""
    role, _, index = short.partition("-")
    container = {"name": "pytorch", "state": state or {"running": {"startedAt": at(1)}}, "restartCount": 0}
    body = {
        "metadata": {
            "name": f"mnist-{short}",
            "namespace": "team",
            "uid": f"{short}-uid",
            "creationTimestamp": at(0),
            "labels": {
                "training.kubeflow.org/job-name": "mnist",
                "training.kubeflow.org/replica-type": role,
                "training.kubeflow.org/replica-index": index,
                "bireme.io/attempt": "0",
            },
            "ownerReferences": [{"kind": "PyTorchJob", "uid": "job-uid", "controller": True}],
            **status.pop("metadata", {}),
        },
        "spec": {"containers": [{"name": "pytorch"}], "nodeName": "node-1", "restartPolicy": "Never"},
        "status": {"phase": phase, "containerStatuses": [container], **status},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=Pod)


def ended(code: int, second: float, message: str = "", reason: str = "Error") -> Json:
    """The state of a container that ended."""
    return {
        "terminated": {
            "exitCode": code,
            "reason": reason,
            "message": message,
            "startedAt": at(1),
            "finishedAt": at(second),
        }
    }
