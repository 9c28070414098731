"""Says why no node takes a pod, and what to do about it."""

from __future__ import annotations

import re
from fractions import Fraction

from bireme.backends.kubernetes.objects.api_types import ObjectCondition, Pod
from bireme.model import quantities


def sentence(pod: Pod, scheduled: ObjectCondition) -> str:
    """One sentence with the next step, from what the scheduler says in its own words."""
    if scheduled.reason == "SchedulingGated":
        return (
            "it waits for its scheduling gates to be lifted, as a queue such as Kueue does when there is room"
        )
    # The scheduler's own words without what it says about pre-emption.
    text = re.split(r"\.?\s*(?:preemption:|no new claims to deallocate)", scheduled.message)[0]
    said = " ".join(text.split()).rstrip(" .;") or "the scheduler does not say why"
    for pattern, answer in _ANSWERS:
        found = re.search(pattern, scheduled.message)
        if found:
            words = {"ns": pod.metadata.namespace, **found.groupdict(default="that taint")}
            words["asked"] = _asked(pod, words.get("resource", ""))
            return f"no node takes it ({said}): {answer.format(**words)}"
    where = f"-n {pod.metadata.namespace} pod/{pod.metadata.name}"
    return f"no node takes it ({said}): see `kubectl describe {where}`"


# The first that fits is what somebody has to see to first.
_ANSWERS = (
    (
        r'persistentvolumeclaim "(?P<claim>[^"]+)" not found',
        "namespace {ns} has no PersistentVolumeClaim {claim}; create it",
    ),
    (
        r'persistentvolumeclaim "(?P<claim>[^"]+)"',
        "PersistentVolumeClaim {claim} cannot be used; see `kubectl describe -n {ns} pvc/{claim}`",
    ),
    (
        r"unbound immediate PersistentVolumeClaims",
        "a PersistentVolumeClaim has no volume yet; see `kubectl get -n {ns} pvc` and its storage class",
    ),
    (
        r"volume node affinity conflict",
        "its volume can only be used on other nodes; use one that every node reaches, or ask for less there",
    ),
    (
        r"Insufficient (?P<resource>[^\s,.]+(?:\.[^\s,.]+)*)",
        "it asks for {asked}; ask for less, or add a node that has it",
    ),
    (
        r"resource gap: map\[(?P<resource>[^:\]]+)",
        "it is placed with its whole gang, for which there is not enough {resource}; "
        "ask for less, or wait until others are done",
    ),
    (
        r"sibling pods|PodGroup \S+ gets rejected|optimistic rejection"  # the scheduler plugins
        r"|pod group is not ready|can possibly be assigned to",  # Volcano
        "it is placed with its whole gang or not at all; `kubectl get -n {ns} events` tells what others lack",
    ),
    (
        r"untolerated taints?(?:\(s\))?(?: \{(?P<taint>[^:}]+)[^}]*\})?",
        "add a toleration for {taint} to its template if it may run there, or untaint a node",
    ),
    (
        r"didn't match Pod's node affinity/selector",
        "no node has the labels that it asks for; see `kubectl get nodes --show-labels` and its nodeSelector",
    ),
    (r"were unschedulable", "nodes are cordoned; `kubectl uncordon NODE` opens one"),
    (r"didn't have free ports", "its hostPort is taken on every node; use another one, or no host network"),
    (r"Too many pods", "every node has as many pods as it may; add a node"),
    (r"no nodes available", "the cluster has no nodes; add one"),
)


def _asked(pod: Pod, resource: str) -> str:
    """How much of a resource the pod asks for, as its author wrote it where that is one amount."""
    written = [
        amount
        for container in pod.spec.containers
        if (amount := container.resources.requests.get(resource, container.resources.limits.get(resource)))
        is not None
    ]
    if len(written) == 1:
        return f"{resource}: {written[0]}"
    try:
        total = sum((quantities.parse(amount) for amount in written), Fraction(0))
    except ValueError:
        return resource
    return f"{resource}: {float(total):g} in all" if written else f"more {resource} than there is"
