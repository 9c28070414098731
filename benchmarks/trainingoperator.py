"""How is the rival run: Kubeflow's Training Operator, outside the cluster that it serves."""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from tools.testcluster import processes
from tools.testcluster.building import build, sources
from tools.testcluster.processes import Process

from benchmarks.wire import Line, request

NAMESPACE = "kubeflow"
SECRET = "training-operator-webhook-cert"
# It serves its webhooks from this very folder and does nothing before there is a certificate in it.
CERTIFICATES = Path("/tmp/k8s-webhook-server/serving-certs")

UNLIMITED = ("-kube-api-qps=100000", "-kube-api-burst=100000", "-controller-threads=16")


def definitions() -> list[bytes]:
    """Its resource definitions, as YAML."""
    folder = sources("training-operator") / "manifests" / "base" / "crds"
    return [path.read_bytes() for path in sorted(folder.glob("kubeflow.org_*.yaml"))]


def install(line: Line) -> None:
    """Put into the cluster what it needs there."""
    for one in definitions():
        name = one.partition(b"\n  name: ")[2].partition(b"\n")[0].decode()
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}?fieldManager=bench"
        status, answer = line.send(request("PATCH", path, one, Content_Type="application/apply-patch+yaml"))
        if status >= 300:
            raise SystemExit(f"the API server refused the definition of {name}: {answer[:500]!r}")
    line.ensure("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    line.ensure(f"/api/v1/namespaces/{NAMESPACE}/secrets", {"metadata": {"name": SECRET}})


@contextlib.contextmanager
def started(kubeconfig: Path, line: Line, log: Path, *flags: str) -> Iterator[Process]:
    """Run it for as long as this is entered; it acts as soon as it has its certificate."""
    metrics, health, webhooks = _free_ports(3)
    words = [
        str(build("training-operator")),
        f"-kubeconfig={kubeconfig}",
        f"-metrics-bind-address=127.0.0.1:{metrics}",
        f"-health-probe-bind-address=127.0.0.1:{health}",
        f"-webhook-server-port={webhooks}",
        *flags,
    ]
    process = processes.spawn("training-operator", words, log, {**os.environ, "MY_POD_NAMESPACE": NAMESPACE})
    try:
        if not processes.until(lambda: _certified(line), 60.0, pause=0.1):
            raise SystemExit(f"the Training Operator made no certificate within a minute: see {log}")
        yield process
    finally:
        processes.end([process])
        shutil.rmtree(CERTIFICATES, ignore_errors=True)


def _certified(line: Line) -> bool:
    """Copy the certificate from the Secret that it fills, as a kubelet would."""
    data = line.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/{SECRET}").get("data") or {}
    if not data:
        return False
    CERTIFICATES.mkdir(parents=True, exist_ok=True)
    for name, value in data.items():
        scratch = CERTIFICATES / f".{name}"
        scratch.write_bytes(base64.b64decode(value))
        scratch.replace(CERTIFICATES / name)
    return True


def _free_ports(count: int) -> list[int]:
    # All are held until the last is found, so that no two are the same.
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
