"""How do these tests make jobs and pods: manifests as people write them, through the whole way to a pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bireme import kinds
from bireme.backends.kubernetes.objects import pod_builder
from bireme.backends.kubernetes.objects.api_types import Pod
from bireme.backends.kubernetes.objects.pod_builder import Extras
from bireme.core.replicas import wiring
from bireme.manifest import read
from bireme.model.decisions import Start
from bireme.model.job import Job, ReplicaId, Role, replica_name
from bireme.model.replicas import Addresses

# Any: objects of the API are plain JSON.
Object = dict[str, Any]

V1 = "kubeflow.org/v1"
V2BETA1 = "kubeflow.org/v2beta1"
V1ALPHA2 = "kubeflow.org/v1alpha2"


def template(*containers: Object, metadata: Object | None = None, **spec: object) -> Object:
    """A pod template; without containers it has one that is named `main`."""
    made: Object = {"spec": {"containers": list(containers) or [container()], **spec}}
    return made | ({"metadata": metadata} if metadata else {})


def container(name: str = "main", **fields: object) -> Object:
    return {"name": name, "image": "training:1", **fields}


class Made:
    """A job, and the raw templates of its roles."""

    def __init__(self, job: Job, templates: Mapping[str, Object]) -> None:
        self.job = job
        self.templates = templates

    def role(self, name: str) -> Role:
        found = self.job.role(name)
        assert found is not None, f"{self.job.name} has no role {name}"
        return found

    def start(self, role: str, index: int = 0, attempt: int = 0) -> Start:
        member = ReplicaId(replica_name(self.job, self.role(role), index), role, index)
        return wiring.start(self.job, member, attempt, Addresses())

    def pod(self, role: str, index: int = 0, extras: Extras | None = None, attempt: int = 0) -> Object:
        declared = self.role(role)
        raw = self.templates[declared.type]
        return pod_builder.pod(self.job, declared, raw, self.start(role, index, attempt), extras or Extras())

    def container(self, role: str, index: int = 0) -> Object:
        """The main container of a replica's pod."""
        containers = self.pod(role, index)["spec"]["containers"]
        found: Object = next(one for one in containers if one["name"] == self.role(role).main)
        return found


def made(
    kind: str,
    roles: Mapping[str, tuple[int, Object]],
    *,
    api_version: str = V1,
    annotations: Mapping[str, str] | None = None,
    restart: str = "",
    **spec: object,
) -> Made:
    """A job of a manifest with these roles: how many replicas, and their template."""
    policy = {"restartPolicy": restart} if restart else {}
    replicas = {type: {"replicas": count, "template": raw, **policy} for type, (count, raw) in roles.items()}
    manifest = {
        "apiVersion": api_version,
        "kind": str(kind),
        "metadata": {"name": "mnist", "namespace": "ml", "annotations": dict(annotations or {})},
        "spec": {kinds.named(kind).specs: replicas, **spec},
    }
    (found,) = read.from_manifest(manifest).jobs
    templates = {type: raw for type, (_, raw) in roles.items()}
    return Made(msgspec.structs.replace(found.job, uid="job-uid"), templates)


def mpi(
    api_version: str = V1,
    workers: int = 2,
    *,
    launcher: Object | None = None,
    worker: Object | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: object,
) -> Made:
    roles = {"Launcher": (1, launcher or template()), "Worker": (workers, worker or template())}
    return made("MPIJob", roles, api_version=api_version, annotations=annotations, restart="", **spec)


def seen(raw: Object) -> Pod:
    """An object as it is read from the API server."""
    return msgspec.json.decode(msgspec.json.encode(raw), type=Pod)


def variables(of: Object) -> list[str]:
    """The variables of a container as lines: `RANK=0`, or `IP<-status.podIP`."""
    return [_line(one) for one in of.get("env", [])]


def _line(one: Object) -> str:
    source = one.get("valueFrom")
    return f"{one['name']}<-{source['fieldRef']['fieldPath']}" if source else f"{one['name']}={one['value']}"
