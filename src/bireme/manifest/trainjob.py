"""What should be written instead of a Trainer v2 `TrainJob`: the PyTorchJob that does the same."""

from __future__ import annotations

import json
from typing import Any

from bireme.manifest import name_rules
from bireme.manifest.text.nodes import Node

KIND = "TrainJob"


def instead(root: Node) -> str:
    """Returns the manifest of a PyTorchJob, in as few lines as an error message has room for."""
    document = _mapping(root.plain())
    spec = _mapping(document.get("spec"))
    trainer = _mapping(spec.get("trainer"))
    nodes = trainer.get("numNodes")
    count = nodes if isinstance(nodes, int) and not isinstance(nodes, bool) and nodes > 0 else 1
    lines = [
        "apiVersion: kubeflow.org/v1",
        "kind: PyTorchJob",
        f"metadata: {_flow(_metadata(document))}",
        "spec:",
    ]
    processes = trainer.get("numProcPerNode")
    if isinstance(processes, int | str) and not isinstance(processes, bool):
        lines.append(f"  nprocPerNode: {_flow(str(processes))}")
    template = _flow({"spec": {"containers": [_container(trainer)]}})
    lines += [
        "  pytorchReplicaSpecs:",
        f"    Master: {{replicas: 1, template: &template {template}}}",
    ]
    if count > 1:
        lines.append(f"    Worker: {{replicas: {count - 1}, template: *template}}")
    return "\n".join(lines)


def _metadata(document: dict[str, Any]) -> dict[str, Any]:
    metadata = _mapping(document.get("metadata"))
    name = metadata.get("name")
    label = name_rules.label_of(name)[: name_rules.MOST_CHARACTERS] if isinstance(name, str) else ""
    kept = {"name": label.rstrip("-") or "my-job"}
    namespace = metadata.get("namespace")
    return {**kept, "namespace": namespace} if isinstance(namespace, str) and namespace else kept


def _container(trainer: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "pytorch", "image": trainer.get("image") or "pytorch/pytorch"}
    for field in ("command", "args", "env"):
        if trainer.get(field):
            container[field] = trainer[field]
    if resources := _mapping(trainer.get("resourcesPerNode")):
        container["resources"] = resources
    return container


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _flow(value: object) -> str:
    # JSON is YAML as well, and needs no YAML writer where nobody has a TrainJob.
    return json.dumps(value, ensure_ascii=False)
