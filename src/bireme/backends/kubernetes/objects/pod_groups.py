"""Builds the pod group by which a job is placed as a whole: for Volcano, or for the scheduler plugins."""

from __future__ import annotations

from collections.abc import Mapping

from bireme import kinds
from bireme.backends.kubernetes.objects import job_objects
from bireme.backends.kubernetes.objects.api_types import Object, PodGroup, Template, table
from bireme.model.job import Job, Role
from bireme.model.pods import Resources

VOLCANO = "volcano"
VOLCANO_API = "scheduling.volcano.sh/v1beta1"
PLUGINS_API = "scheduling.x-k8s.io/v1alpha1"
PLURAL = "podgroups"

USUAL_QUEUE = "default"


def api_version(scheduler: str) -> str:
    """The API that a gang scheduler's pod groups belong to."""
    return VOLCANO_API if scheduler == VOLCANO else PLUGINS_API


def podgroup(
    job: Job, scheduler: str, templates: Mapping[str, Template], priorities: Mapping[str, int]
) -> Object:
    """The group of all pods of a job.

    `templates` are the raw ones by role name; `priorities` are the values of the cluster's priority classes.
    """
    spec: Object = {"minMember": members(job)}
    wanted = dict(job.policy.scheduling.min_resources) or _sum(job, templates, priorities)
    if wanted:
        spec["minResources"] = wanted
    if scheduler == VOLCANO:
        spec["queue"] = queue(job)
        # The policy's own, else that of the first role that has one and counts.
        found = (_class_of(templates, role) for role in kinds.of(job).gang(job).priority_roles)
        if name := job.policy.scheduling.priority_class or next((name for name in found if name), ""):
            spec["priorityClassName"] = name
    else:
        chosen = job.policy.scheduling.timeout
        timeout = kinds.of(job).gang(job).timeout if chosen is None else chosen
        if timeout is not None:
            spec["scheduleTimeoutSeconds"] = timeout
    metadata: Object = {
        "name": job.name,
        "namespace": job.namespace,
        "ownerReferences": [job_objects.owner(job)],
    }
    if job.annotations:
        metadata["annotations"] = dict(job.annotations)
    return {"apiVersion": api_version(scheduler), "kind": "PodGroup", "metadata": metadata, "spec": spec}


def members(job: Job) -> int:
    """How many pods must be placed together.

    Those that start when others are ready are not among them: no pod would be placed before they are made.
    """
    kind = kinds.of(job)
    first = sum(role.replicas for role in job.roles if not kind.start_after(job, role))
    return min(_counted(job), first)


def queue(job: Job) -> str:
    """The queue that the job asks for; one that its group has already stays, because it cannot be changed."""
    noted = job.annotations.get(kinds.of(job).gang(job).queue_annotation, "")
    return job.policy.scheduling.queue or noted or USUAL_QUEUE


def is_admitted(scheduler: str, group: PodGroup | None) -> bool:
    """Whether pods may be created now: Volcano first makes room for the group as a whole."""
    if scheduler != VOLCANO:
        return group is not None
    return group is not None and group.status.phase not in ("", "Pending")


def waiting(job: Job, scheduler: str) -> str:
    """Why no pod of the job is there yet, and which command tells more."""
    return (
        f"waits for {scheduler} to make room for {members(job)} pods in queue {queue(job)}: "
        f"kubectl describe {PLURAL} {job.name} tells why"
    )


def scheduler(job: Job, written: str, chosen: str) -> str:
    """The scheduler of a pod: what its template says stays, unless the kind says otherwise."""
    return chosen if kinds.of(job).gang(job).decides_scheduler or not written else written


def pod_labels(job: Job, scheduler: str) -> dict[str, str]:
    return {} if scheduler == VOLCANO else {"scheduling.x-k8s.io/pod-group": job.name}


def pod_annotations(job: Job, role: Role, scheduler: str) -> dict[str, str]:
    if scheduler != VOLCANO:
        return {}
    return {"scheduling.k8s.io/group-name": job.name, "volcano.sh/task-spec": role.name}


def _class_of(templates: Mapping[str, Template], role: str) -> str:
    return str(table(table(templates, role), "spec").get("priorityClassName") or "")


def _sum(job: Job, templates: Mapping[str, Template], priorities: Mapping[str, int]) -> Object:
    """What the pods that must be placed together ask for, those of the highest priority first."""
    ranked = sorted(job.roles, key=lambda role: -priorities.get(_class_of(templates, role.name), 0))
    left = _counted(job)
    cpu, memory, devices = 0, 0, dict[str, int]()
    for role in ranked:
        count = min(role.replicas, left)
        left -= count
        for container in role.pod.containers:
            # Its limits count where it says nothing of requests at all.
            asked = container.requests if container.requests != Resources() else container.limits
            cpu += count * (asked.cpu or 0)
            memory += count * (asked.memory or 0)
            for name, number in asked.devices.items():
                devices[name] = devices.get(name, 0) + count * number
    amounts = {"cpu": f"{cpu}m" if cpu else "", "memory": str(memory or "")}
    amounts |= {name: str(number or "") for name, number in sorted(devices.items())}
    return {name: amount for name, amount in amounts.items() if amount}


def _counted(job: Job) -> int:
    """How many pods the job calls its least: all of them unless it says so."""
    chosen = job.policy.scheduling.min_available
    return job.total if chosen is None else chosen
