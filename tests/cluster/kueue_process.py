"""Runs the real Kueue beside an API server: as a process, with its own definitions and webhooks."""

from __future__ import annotations

import base64
import contextlib
import os
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import yaml
from tools.testcluster import processes
from tools.testcluster.building import build, sources

from tests.cluster.control_plane import Json, Plane
from tests.cluster.operator_fixtures import Jobs, until

NAMESPACE, SERVICE, SECRET = "kueue-system", "kueue-webhook-service", "kueue-webhook-server-cert"
FRAMEWORKS = ("pytorchjob", "tfjob", "xgboostjob", "paddlejob", "jaxjob", "mpijob")
GROUPS = {"kueue.x-k8s.io", "kubeflow.org"}
QUEUE_LABEL, PRIORITY_LABEL = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
POOL = {"example.com/pool": "training"}
"""The nodes of the flavour that every queue here has."""


@contextlib.contextmanager
def kueue(server: Plane, folder: Path) -> Iterator[None]:
    """Kueue as its maintainers ship it, for as long as this is entered."""
    health, webhooks = free_ports(2)
    certificates = folder / "certificates"
    certificates.mkdir(parents=True)
    config = folder / "kueue.yaml"
    config.write_text(yaml.safe_dump(_configuration(health, webhooks, certificates)))
    _install(server, webhooks)
    words = [str(build("kueue")), f"--kubeconfig={server.kubeconfig}", f"--config={config}"]
    process = processes.spawn("kueue", words, folder / "kueue.log", processes.bare_environ())
    try:
        until(lambda: _certified(server, certificates), "Kueue's certificate")
        until(lambda: _is_ready(health), f"Kueue to be ready, see {folder}/kueue.log")
        yield
    finally:
        processes.end([process])


def open_queue(jobs: Jobs, cpus: int) -> None:
    """A queue for the jobs of one namespace, in which urgent ones take the place of others."""
    name = jobs.namespace
    quota = {"name": "cpu", "nominalQuota": cpus}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": name, "resources": [quota]}]}
    preemption = {"withinClusterQueue": "LowerPriority"}
    spec = {"namespaceSelector": {}, "resourceGroups": [group], "preemption": preemption}
    jobs.create(_kueue("ResourceFlavor", name, spec={"nodeLabels": POOL}))
    jobs.create(_kueue("ClusterQueue", name, spec=spec))
    jobs.create(_kueue("WorkloadPriorityClass", f"{name}-urgent", value=1000))
    jobs.create(_kueue("LocalQueue", "lane", spec={"clusterQueue": name}))
    until(lambda: _is_active(jobs.object("localqueue/lane")), "the queue to be open")


def queued(job: Json, name: str, **labels: str) -> Json:
    """The job in the queue, with one CPU for each replica."""
    job["metadata"] = {"name": name, "labels": {QUEUE_LABEL: "lane", **labels}}
    for field, specs in job["spec"].items():
        if field.endswith("ReplicaSpecs"):
            for spec in specs.values():
                for container in spec["template"]["spec"]["containers"]:
                    container["resources"] = {"requests": {"cpu": "1"}}
    return job


def workload(jobs: Jobs, job: str) -> Json:
    """What Kueue keeps of a job, or None."""
    found = jobs.objects("workloads.kueue.x-k8s.io")
    owned = (one for one in found if one["metadata"]["ownerReferences"][0]["name"] == job)
    return next(owned, None)


def says(jobs: Jobs, job: str, type: str) -> Json:
    """A condition that Kueue's workload of the job has while it holds, else None."""
    conditions = (workload(jobs, job) or {}).get("status", {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == type and one["status"] == "True"), None)


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on."""
    # All are held until the last is found, so that no two are the same.
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def _install(server: Plane, port: int) -> None:
    config = sources("kueue") / "config" / "components"
    definitions = sorted((config / "crd" / "bases").glob("*.yaml"))
    server("apply", "--server-side", *(f"--filename={one}" for one in definitions))
    server("wait", "--for=condition=Established", *(f"crd/{_plural(one)}" for one in definitions))
    server("create", "namespace", NAMESPACE)
    # It lies outside the cluster, so its service is another name of this machine.
    outside = {"type": "ExternalName", "externalName": "localhost"}
    replace(server, namespace=NAMESPACE).apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE}, "spec": outside},
        *_webhooks(config / "webhook" / "manifests.yaml", port),
    )


def _webhooks(file: Path, port: int) -> Iterator[Json]:
    """Kueue's own, of the kinds that matter here."""
    for one in yaml.safe_load_all(file.read_text()):
        one["metadata"]["name"] = f"kueue-{one['metadata']['name']}"
        one["webhooks"] = [each for each in one["webhooks"] if GROUPS & set(each["rules"][0]["apiGroups"])]
        for each in one["webhooks"]:
            each["clientConfig"]["service"] |= {"name": SERVICE, "namespace": NAMESPACE, "port": port}
        yield one


def _configuration(health: int, webhooks: int, certificates: Path) -> Json:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta1",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": webhooks, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {
            "enable": True,
            "webhookServiceName": SERVICE,
            "webhookSecretName": SECRET,
        },
        "featureGates": {"VisibilityOnDemand": False},
        "waitForPodsReady": {"enable": True, "timeout": "10m", "blockAdmission": False},
        "integrations": {"frameworks": [f"kubeflow.org/{one}" for one in FRAMEWORKS]},
    }


def _certified(server: Plane, folder: Path) -> bool:
    """Copy the certificate from the Secret that Kueue fills, as a kubelet would."""
    data = server.object("-n", NAMESPACE, "secret", SECRET).get("data") or {}
    for name, value in data.items():
        scratch = folder / f".{name}"
        scratch.write_bytes(base64.b64decode(value))
        os.replace(scratch, folder / name)
    return bool(data)


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


def _is_active(queue: Json) -> bool:
    conditions = queue.get("status", {}).get("conditions", [])
    return any(one["type"] == "Active" and one["status"] == "True" for one in conditions)


def _kueue(kind: str, name: str, **fields: Json) -> Json:
    return {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": kind, "metadata": {"name": name}, **fields}


def _plural(file: Path) -> str:
    group, _, plural = file.stem.partition("_")
    return f"{plural}.{group}"
