"""Builds the pod of a replica from its raw template, and the service through which it is found."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from bireme import kinds
from bireme.backends.kubernetes.objects import job_objects, mpi_pods, pod_groups
from bireme.backends.kubernetes.objects.api_types import Object, Template, items, table
from bireme.kinds.contract import Injects
from bireme.model.decisions import Start
from bireme.model.job import Job, Role, replica_name
from bireme.model.pods import Container, EnvVar, FieldRef, KeyRef, RefKind, ResourceRef
from bireme.runtime import wire

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
"""The annotation by which `kubectl logs` and `kubectl exec` choose a container."""
ATTEMPT_VARIABLE = "BIREME_ATTEMPT"


class Extras(Struct, frozen=True):
    """What a pod depends on beyond its job: how the cluster is set up, and where peers are."""

    domain: str = ""
    """The cluster's domain where names carry it; empty means that the usual one is not written."""
    gang_scheduler: str = ""
    """`volcano`, or the name of a scheduler with the scheduler plugins; empty for none."""
    host_aliases: dict[str, str] = {}
    """Addresses by host name that hold in the pod whatever the cluster's DNS says."""


def pod(job: Job, role: Role, template: Template, start: Start, extras: Extras) -> Object:
    """The pod that a start asks for."""
    spec = _spec(job, role, table(template, "spec"), start)
    if remote := kinds.of(job).remote_start(job):
        spec = mpi_pods.prepared(job, role, remote, spec, start.replica, extras.domain)
    if extras.gang_scheduler:
        scheduler = pod_groups.scheduler(job, str(spec.get("schedulerName") or ""), extras.gang_scheduler)
        spec["schedulerName"] = scheduler
    if extras.host_aliases:
        by_address: dict[str, list[str]] = {}
        for name, address in extras.host_aliases.items():
            by_address.setdefault(address, []).append(name)
        aliases = [{"ip": address, "hostnames": names} for address, names in by_address.items()]
        spec["hostAliases"] = [*items(spec, "hostAliases"), *aliases]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(job, role, table(template, "metadata"), start, extras),
        "spec": spec,
    }


def _metadata(job: Job, role: Role, written: Template, start: Start, extras: Extras) -> Object:
    marks = {**kinds.of(job).pod_labels(job, role, start.index), job_objects.ATTEMPT: str(start.attempt)}
    # Which container trains, for us and for kubectl, where that is not plain.
    notes: dict[str, str] = {}
    if len(role.pod.containers) > 1:
        if role.pod.containers[0].name != role.main:
            notes[job_objects.MAIN_CONTAINER] = role.main
        notes[DEFAULT_CONTAINER] = role.main
    if extras.gang_scheduler:
        marks |= pod_groups.pod_labels(job, extras.gang_scheduler)
        notes |= pod_groups.pod_annotations(job, role, extras.gang_scheduler)
    said = table(written, "annotations")
    notes = {name: text for name, text in notes.items() if name != DEFAULT_CONTAINER or name not in said}
    metadata: Object = {
        "name": start.replica,
        "namespace": job.namespace,
        "labels": {**table(written, "labels"), **marks},
        "ownerReferences": [job_objects.owner(job)],
    }
    if said or notes:
        metadata["annotations"] = {**said, **notes}
    if written.get("finalizers"):
        metadata["finalizers"] = written["finalizers"]
    return metadata


def _spec(job: Job, role: Role, written: Template, start: Start) -> Object:
    spec = dict(written)
    if start.restarts_always:
        spec["restartPolicy"] = "Always"
    else:
        spec["restartPolicy"] = "OnFailure" if start.restarts_in_place else "Never"
    for field, declared, started in (
        ("containers", role.pod.containers, start.pod.containers),
        ("initContainers", role.pod.init_containers, start.pod.init_containers),
    ):
        raw = items(written, field)
        if raw:
            spec[field] = [_container(*each) for each in zip(raw, declared, started, strict=True)]
    if spec.get("containers"):
        spec["containers"] = [_fenced(container, job, role, start) for container in items(spec, "containers")]
    if spec.get("hostNetwork") and not spec.get("dnsPolicy"):
        # With the usual policy a pod on its node's network asks the node's DNS, which knows no peers.
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    added = missing_tolerations(role, items(written, "tolerations"))
    if added:
        spec["tolerations"] = [*items(written, "tolerations"), *added]
    return spec


def _container(written: Template, declared: Container, started: Container) -> Object:
    """The container as written, with the kind's port and what wiring appended to its environment."""
    container = dict(written)
    if container.get("command") == [""]:
        del container["command"]
    env = items(written, "env")
    said = {str(variable.get("name")) for variable in env}
    added = [
        variable
        for variable in started.env[len(declared.env) :]
        if not (variable.weak and variable.name in said)
    ]
    if added:
        container["env"] = [*env, *(_variable(variable) for variable in added)]
    ports = items(written, "ports")
    known = {str(port.get("name")) for port in ports}
    fresh = [{"name": name, "containerPort": number} for name, number in declared.ports.items()]
    if missing := [port for port in fresh if port["name"] not in known]:
        container["ports"] = [*ports, *missing]
    return container


def _fenced(container: Object, job: Job, role: Role, start: Start) -> Object:
    """The container with the run and the attempt of its ranks, so that those of an older one can be told.

    By these alone a rank on a node that cannot be reached any more loses its checkpoints to its successor.
    Where the template says one of them, that stays: the command line gives a run a name of its own.
    """
    everywhere = kinds.of(job).injects is Injects.EVERY
    if not everywhere and container.get("name") != role.main:
        return container
    said = {str(variable.get("name")) for variable in items(container, "env")}
    values = {wire.MARK: f"{job.uid}/{start.attempt}", ATTEMPT_VARIABLE: str(start.attempt)}
    added = [{"name": name, "value": value} for name, value in values.items() if name not in said]
    return {**container, "env": [*items(container, "env"), *added]} if added else container


def _variable(variable: EnvVar) -> Object:
    match variable.source:
        case None:
            return {"name": variable.name, "value": variable.value}
        case FieldRef(path):
            source: Object = {"fieldRef": {"fieldPath": path}}
        case KeyRef(kind, name, key, optional):
            field = "configMapKeyRef" if kind is RefKind.CONFIG_MAP else "secretKeyRef"
            source = {field: {"name": name, "key": key, "optional": optional}}
        case ResourceRef(resource, container, divisor):
            named = {"containerName": container} if container else {}
            source = {"resourceFieldRef": {"resource": resource, "divisor": divisor, **named}}
    return {"name": variable.name, "valueFrom": source}


def missing_tolerations(role: Role, written: Sequence[Template]) -> list[Object]:
    """The tolerations for the devices that a role asks for, where its template has none that covers them.

    Nodes with devices are by custom tainted with the name of the device, in any effect.
    """
    containers = (*role.pod.init_containers, *role.pod.containers)
    asked = {name for container in containers for name, count in container.claims.devices.items() if count}
    # What Kubernetes itself provides has no nodes of its own.
    devices = sorted(name for name in asked if "/" in name and "kubernetes.io/" not in name)
    return [
        {"key": device, "operator": "Exists"}
        for device in devices
        # Where the author thought of the device, nothing is added to it.
        if not any(toleration.get("key") == device or tolerates(toleration, device) for toleration in written)
    ]


def tolerates(toleration: Template, key: str, value: str = "", effect: str = "NoSchedule") -> bool:
    """Whether a toleration lets a pod ignore a taint."""
    if toleration.get("effect") not in (None, "", effect):
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    if toleration["key"] != key:
        return False
    return toleration.get("operator") == "Exists" or str(toleration.get("value") or "") == value


def service(job: Job, role: Role, index: int) -> Object | None:
    """The service through which one replica is found; None for a kind whose replicas are not looked up.

    It is called like the replica's pod, unless all replicas share one, which is called like the job.
    """
    kind = kinds.of(job)
    if kind.shares_service(job):
        marks = kind.job_labels(job)
        return _headless(job, job.name, {"app": job.name, **marks}, {"selector": marks})
    if not has_own_services(job):
        return None
    marks = kind.replica_labels(job, role, index)
    # Every named port of the main container; a number that has two names is listed under the first.
    names: dict[int, str] = {}
    for name, number in role.container.ports.items():
        names.setdefault(number, name)
    ports = [{"name": name, "port": number, "targetPort": number} for number, name in names.items()]
    return _headless(job, replica_name(job, role, index), marks, {"selector": marks, "ports": ports})


def has_own_services(job: Job) -> bool:
    """Whether each replica of the job has a service of its own."""
    kind = kinds.of(job)
    return bool(kind.port[0]) and not kind.shares_service(job)


def _headless(job: Job, name: str, marks: dict[str, str], spec: Object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "labels": marks,
            "ownerReferences": [job_objects.owner(job)],
        },
        # A name holds as soon as its pod has an address: peers meet before any of them is ready.
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, **spec},
    }
