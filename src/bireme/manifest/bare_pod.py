"""How is a bare Pod run: as the batch Job that has it as its template."""

from __future__ import annotations

from bireme import kinds
from bireme.manifest.text.nodes import Node

KIND = "Pod"

# A job ends when its program succeeds, so that nothing is restarted after that.
_RESTARTS = {None: "OnFailure", "Always": "OnFailure"}


def as_job(root: Node) -> Node:
    """Returns the document of a Job around a Pod's document; every part of the Pod keeps its place."""
    entries = root.value if isinstance(root.value, dict) else {}
    metadata, spec = entries.get("metadata"), entries.get("spec")
    template = Node({}, root.mark)
    if spec is not None:
        template = Node({"spec": _with_restart(spec)}, spec.mark, spec.key_mark)
    job = {
        "apiVersion": _text(kinds.OF_PODS.api_versions[0], entries.get("apiVersion", root)),
        "kind": _text(kinds.OF_PODS.name, entries.get("kind", root)),
        "spec": Node({"template": template}, template.mark, template.key_mark),
    }
    if metadata is not None:
        job["metadata"] = metadata
    return Node(job, root.mark)


def _with_restart(spec: Node) -> Node:
    if not isinstance(spec.value, dict):
        return spec
    written = spec.value.get("restartPolicy")
    policy = None if written is None else written.value
    if policy is not None and not isinstance(policy, str):
        return spec
    restart = _RESTARTS.get(policy, policy)
    return Node({**spec.value, "restartPolicy": _text(restart, written or spec)}, spec.mark, spec.key_mark)


def _text(value: str | None, at: Node) -> Node:
    return Node(value, at.mark, at.key_mark)
