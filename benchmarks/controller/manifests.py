"""Which jobs are carried on: TFJobs without a chief, whose pods are bound to a node that is only played."""

from __future__ import annotations

NAMESPACE = "default"
NODE = "played"
JOBS = f"/apis/kubeflow.org/v1/namespaces/{NAMESPACE}/tfjobs"
DIGITS = 5


def name(number: int) -> str:
    """All names are of one length, so that a recorded request can be sent for every job."""
    return f"bench-{number:0{DIGITS}}"


def job(number: int, workers: int) -> dict[str, object]:
    """One TFJob as a user would write it."""
    container = {
        "name": "tensorflow",
        "image": "example.com/train:1",
        "command": ["python", "train.py"],
        "resources": {"requests": {"cpu": "1"}},
    }
    worker = {
        "replicas": workers,
        "restartPolicy": "OnFailure",
        "template": {"spec": {"nodeName": NODE, "containers": [container]}},
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name(number), "namespace": NAMESPACE},
        "spec": {"runPolicy": {"cleanPodPolicy": "None"}, "tfReplicaSpecs": {"Worker": worker}},
    }


def node() -> dict[str, object]:
    """The node that all pods are bound to, large enough for them."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}


def node_status() -> dict[str, object]:
    amounts = {"cpu": "1000000", "memory": "1000Ti", "pods": "1000000"}
    ready = {"type": "Ready", "status": "True", "reason": "Played", "message": "played"}
    return {"status": {"conditions": [ready], "allocatable": amounts, "capacity": amounts}}
