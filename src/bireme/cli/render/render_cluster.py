"""Shows a cluster, and what was installed there. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import indent
from typing import TYPE_CHECKING

from bireme.model.quantities import show_cpu, show_memory

if TYPE_CHECKING:  # they need an extra
    from bireme.backends.kubernetes.rollouts import Standing
    from bireme.operator.install.installing import Done
    from bireme.sdk.cluster.cluster_health import ClusterView

_MOST_NAMED = 10
_UNSEEN = "you may not look"
_WHOSE = {"bireme": "Bireme's", "kubeflow": "Kubeflow's own", "": "none"}


def shown(view: ClusterView) -> list[str]:
    """Shows the facts, then each problem with its next step."""
    it = view.cluster
    nodes = devices = storage = _UNSEEN
    if it.nodes is not None:
        nodes = f"{it.ready_nodes} of {it.nodes} ready: {show_cpu(it.cpu)}, {show_memory(it.memory)}"
        devices = ", ".join(f"{count} {name}" for name, count in it.devices.items()) or "none"
    if it.storage_classes is not None:
        marks = {it.default_class: " (default)"} if it.default_class else {}
        storage = ", ".join(f"{name}{marks.get(name, '')}" for name in it.storage_classes) or "no class"
    facts = [
        ("bireme", view.bireme),
        ("cluster", f"{it.context} at {it.server}, namespace {it.namespace}"),
        ("kubernetes", it.kubernetes),
        ("job kinds", f"{_WHOSE[it.definitions]}: {', '.join(it.kinds)}" if it.kinds else "none"),
        ("operator", _UNSEEN if it.operator is None else it.operator or "none"),
        ("nodes", nodes),
        ("devices", devices),
        ("storage", storage),
        ("DNS", _UNSEEN if it.dns is None else "served" if it.dns else "not served"),
        ("neighbours", ", ".join(it.neighbours) or "none"),
    ]
    lines = [f"{name:<11} {value}" for name, value in facts]
    for problem in view.problems:
        lines += ["", f"! {problem.what}", *indent(f"next: {problem.next}", "  ").splitlines()]
    return lines


def installed_line(done: Done, *, dry_run: bool = False) -> str:
    """Says what became of an object, or would become of it in a dry run."""
    where = f" in namespace {done.namespace}" if done.namespace else ""
    trial = " (dry run)" if dry_run else ""
    return f"{done.outcome:9} {done.kind} {done.name}{where}{trial}"


def installed(operator: Standing | None, namespace: str) -> str:
    """Says how an installation without problems ended."""
    if operator is None:
        return f"the operator is in namespace {namespace}; how it fares: bireme doctor --on kubernetes"
    return f"the operator runs in namespace {namespace} with image {operator.image}"


def first_names(jobs: Sequence[str]) -> str:
    """The names of jobs, or of the first of many."""
    more = len(jobs) - _MOST_NAMED
    named = ", ".join(jobs[:_MOST_NAMED])
    return f"{named} and {more} more" if more > 0 else named
