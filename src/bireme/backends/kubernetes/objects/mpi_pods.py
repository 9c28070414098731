"""Adds what only the pods of an MPIJob have: files of MPI, keys, names, idle workers."""

from __future__ import annotations

from bireme import kinds
from bireme.backends.kubernetes.objects.api_types import Object, Template, items, table
from bireme.kinds.contract import RemoteStart
from bireme.model.job import Job, Role
from bireme.model.replicas import Addresses

FOLDER = "/etc/mpi"
PROGRAMS = ("kubexec.py", "execsocket.py")
"""What the agent runs: the first, which uses the second."""
CONFIG_VOLUME = "mpi-job-config"
KEY_VOLUME = "ssh-auth"
USUAL_KEY_PATH = "/root/.ssh"
USUAL_DOMAIN = "cluster.local"

_SLEEP: Object = {"command": ["sleep"], "args": ["365d"]}
_SSH_SERVER: Object = {"command": ["/usr/sbin/sshd", "-De"]}
_KEYS = {"id_rsa": "ssh-privatekey", "id_rsa.pub": "ssh-publickey", "authorized_keys": "ssh-publickey"}


def config_name(job: Job) -> str:
    return f"{job.name}-config"


def secret_name(job: Job) -> str:
    return f"{job.name}-ssh"


def launcher_name(job: Job) -> str:
    """What the launcher's rights are called, and its service account unless its template names one."""
    return f"{job.name}-launcher"


def named_account(template: Template) -> str:
    """The service account that the launcher's template names; empty where it names none."""
    spec = table(template, "spec")
    return str(spec.get("serviceAccountName") or spec.get("serviceAccount") or "")


def prepared(job: Job, role: Role, remote: RemoteStart, spec: Object, name: str, domain: str) -> Object:
    """The spec of a pod that starts commands in others, or in which they are started."""
    spec = dict(spec)
    is_launcher = role.name == remote.launcher
    if not is_launcher and remote.idles:
        spec = _idle(role, spec, _SLEEP if remote.agent else _SSH_SERVER)
    if is_launcher and remote.agent:
        spec["serviceAccountName"] = named_account({"spec": spec}) or launcher_name(job)
    if files := _files(job, remote, is_launcher=is_launcher):
        volume: Object = {"name": CONFIG_VOLUME, "configMap": {"name": config_name(job), "items": files}}
        spec = _mounted(spec, role, volume, FOLDER)
    if not remote.agent:
        path = remote.key_path or USUAL_KEY_PATH
        keys = [{"key": key, "path": file} for file, key in _KEYS.items()]
        secret: Object = {"secretName": secret_name(job), "items": keys}
        if path == USUAL_KEY_PATH:
            # ssh refuses a private key that others may read; in other folders it is not root, the owner of
            # the file, that reads it.
            secret["defaultMode"] = 0o600
        spec = _mounted(spec, role, {"name": KEY_VOLUME, "secret": secret}, path)
    if not remote.has_host_names:
        return spec
    # The names under which pods of v2beta1 reach each other, short and whole.
    config = table(spec, "dnsConfig")
    search = f"{job.name}.{job.namespace}.svc.{domain or USUAL_DOMAIN}"
    searches = [*(config.get("searches") or []), search]
    network: Object = {"dnsPolicy": "ClusterFirstWithHostNet"} if spec.get("hostNetwork") else {}
    names = {"hostname": name, "subdomain": job.name, "dnsConfig": {**config, "searches": searches}}
    return {**spec, **names, **network}


def _files(job: Job, remote: RemoteStart, *, is_launcher: bool) -> list[Object]:
    if not is_launcher:
        # No process calls it there, but Open MPI does not start where it is told of an agent that is missing.
        return [_item(remote.agent, 0o555)] if remote.agent else []
    files = kinds.of(job).files(job, frozenset(), Addresses())
    shared = [_item(file.path, file.mode) for file in files]
    if not remote.agent:
        return shared
    return [_item(remote.agent, 0o555), *(_item(name, 0o444) for name in PROGRAMS), *shared]


def _item(path: str, mode: int) -> Object:
    name = path.rpartition("/")[2]
    return {"key": name, "path": name, "mode": mode}


def _mounted(spec: Object, role: Role, volume: Object, path: str) -> Object:
    mount: Object = {"name": volume["name"], "mountPath": path}
    containers = [
        {**container, "volumeMounts": [*items(container, "volumeMounts"), mount]}
        if container.get("name") == role.main
        else container
        for container in items(spec, "containers")
    ]
    return {**spec, "containers": containers, "volumes": [*items(spec, "volumes"), volume]}


def _idle(role: Role, spec: Object, program: Object) -> Object:
    """A worker that is given nothing to run waits for the launcher to start commands in it."""
    containers = [
        {**{key: value for key, value in container.items() if key != "args"}, **program}
        if container.get("name") == role.main
        else container
        for container in items(spec, "containers")
    ]
    spec = {**spec, "containers": containers}
    if program is _SLEEP and len(containers) == 1 and spec.get("terminationGracePeriodSeconds") is None:
        # `sleep` as the first process ignores SIGTERM, and nothing else in the pod is told: waiting is idle.
        spec["terminationGracePeriodSeconds"] = 1
    return spec
