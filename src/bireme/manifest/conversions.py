"""Converts documents that are no jobs of ours: a bare Pod is run as a Job, a TrainJob as a PyTorchJob."""

from __future__ import annotations

import json
from typing import Any

from bireme import kinds
from bireme.manifest import name_rules
from bireme.manifest.text.nodes import Node

POD = "Pod"
TRAINJOB = "TrainJob"

# A job ends when its program succeeds, so that nothing is restarted after that.
_RESTARTS = {None: "OnFailure", "Always": "OnFailure"}


def job_of_pod(root: Node) -> Node:
    """Returns the document of a Job around a Pod's document; every part of the Pod keeps its place."""
    entries = root.value if isinstance(root.value, dict) else {}
    metadata, spec = entries.get("metadata"), entries.get("spec")
    template = Node({}, root.mark)
    if spec is not None:
        if isinstance(spec.value, dict):
            written = spec.value.get("restartPolicy")
            policy = None if written is None else written.value
            if policy is None or isinstance(policy, str):
                restart = _text(_RESTARTS.get(policy, policy), written or spec)
                spec = Node({**spec.value, "restartPolicy": restart}, spec.mark, spec.key_mark)
        template = Node({"spec": spec}, spec.mark, spec.key_mark)
    job = {
        "apiVersion": _text(kinds.OF_PODS.api_versions[0], entries.get("apiVersion", root)),
        "kind": _text(kinds.OF_PODS.name, entries.get("kind", root)),
        "spec": Node({"template": template}, template.mark, template.key_mark),
    }
    if metadata is not None:
        job["metadata"] = metadata
    return Node(job, root.mark)


def pytorchjob_of(root: Node) -> str:
    """Returns the manifest of a PyTorchJob, in as few lines as an error message has room for."""
    document = _mapping(root.plain())
    spec = _mapping(document.get("spec"))
    trainer = _mapping(spec.get("trainer"))
    nodes = trainer.get("numNodes")
    count = nodes if isinstance(nodes, int) and not isinstance(nodes, bool) and nodes > 0 else 1
    given = _mapping(document.get("metadata"))
    name, namespace = given.get("name"), given.get("namespace")
    label = name_rules.label_of(name)[: name_rules.MOST_CHARACTERS] if isinstance(name, str) else ""
    metadata = {"name": label.rstrip("-") or "my-job"}
    if isinstance(namespace, str) and namespace:
        metadata["namespace"] = namespace
    lines = [
        "apiVersion: kubeflow.org/v1",
        "kind: PyTorchJob",
        f"metadata: {_flow(metadata)}",
        "spec:",
    ]
    processes = trainer.get("numProcPerNode")
    if isinstance(processes, int | str) and not isinstance(processes, bool):
        lines.append(f"  nprocPerNode: {_flow(str(processes))}")
    container: dict[str, Any] = {"name": "pytorch", "image": trainer.get("image") or "pytorch/pytorch"}
    container |= {field: trainer[field] for field in ("command", "args", "env") if trainer.get(field)}
    if resources := _mapping(trainer.get("resourcesPerNode")):
        container["resources"] = resources
    template = _flow({"spec": {"containers": [container]}})
    lines += [
        "  pytorchReplicaSpecs:",
        f"    Master: {{replicas: 1, template: &template {template}}}",
    ]
    if count > 1:
        lines.append(f"    Worker: {{replicas: {count - 1}, template: *template}}")
    return "\n".join(lines)


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _flow(value: object) -> str:
    # JSON is YAML as well, and needs no YAML writer where there is no TrainJob.
    return json.dumps(value, ensure_ascii=False)


def _text(value: str | None, at: Node) -> Node:
    return Node(value, at.mark, at.key_mark)
