"""With which words is each program of the control plane started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.testcluster.certificates import Authority, write_kubeconfig
from tools.testcluster.places import Home

SERVICE_CIDR = "10.96.0.0/16"
API_ADDRESS = "10.96.0.1"
DNS_ADDRESS = "10.96.0.10"
POD_CIDR = "10.244.0.0/16"
DOMAIN = "cluster.local"

# What acts on nodes is left out where nobody plays a kubelet: it would call every node lost, and delete its
# pods.
WITHOUT_NODES = (
    "*",
    "-node-lifecycle-controller",
    "-pod-garbage-collector-controller",
    "-taint-eviction-controller",
)


@dataclass(frozen=True)
class Layout:
    """Where the control plane of one cluster listens."""

    home: Home
    program: Path
    address: str
    """Where nodes and pods reach the API server."""
    api_port: int
    etcd_port: int
    peer_port: int
    others: tuple[int, int] = (10257, 10259)
    """Where controller-manager and scheduler listen."""
    nodes: bool = True

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.api_port}"


def make_certificates(layout: Layout, nodes: dict[str, str]) -> None:
    """Make every certificate and kubeconfig of a cluster, `nodes` being their names and addresses."""
    authority = Authority(layout.home.certificates)
    names = [
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        f"kubernetes.default.svc.{DOMAIN}",
        "localhost",
    ]
    authority.server("apiserver", "kube-apiserver", [*names, "127.0.0.1", layout.address, API_ADDRESS])
    authority.key("service-accounts")
    authority.client("admin", "admin", "system:masters")
    authority.client("controller-manager", "system:kube-controller-manager")
    if layout.nodes:
        authority.client("scheduler", "system:kube-scheduler")
        authority.client("proxy", "system:kube-proxy")
        authority.client("coredns", "system:coredns")
    for name, address in nodes.items():
        authority.server(name, f"system:node:{name}", [name, address], "system:nodes")


def etcd(layout: Layout) -> list[str]:
    """Return etcd's command: it keeps nothing for later, so it need not wait for the disk."""
    client = f"http://127.0.0.1:{layout.etcd_port}"
    peer = f"http://127.0.0.1:{layout.peer_port}"
    return [
        *_call(layout, "etcd"),
        f"--data-dir={layout.home.folder / 'etcd'}",
        "--name=etcd",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=etcd={peer}",
        "--unsafe-no-fsync",
        "--quota-backend-bytes=4294967296",
        "--log-level=warn",
    ]


def apiserver(layout: Layout) -> list[str]:
    """Return the API server's command."""
    folder = layout.home.certificates
    return [
        *_call(layout, "kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{layout.etcd_port}",
        f"--secure-port={layout.api_port}",
        f"--bind-address={'0.0.0.0' if layout.nodes else '127.0.0.1'}",
        f"--advertise-address={layout.address}",
        f"--service-cluster-ip-range={SERVICE_CIDR}",
        f"--client-ca-file={folder / 'ca.crt'}",
        f"--tls-cert-file={folder / 'apiserver.crt'}",
        f"--tls-private-key-file={folder / 'apiserver.key'}",
        f"--service-account-key-file={folder / 'service-accounts.key'}",
        f"--service-account-signing-key-file={folder / 'service-accounts.key'}",
        f"--service-account-issuer=https://kubernetes.default.svc.{DOMAIN}",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",
        "--profiling=false",
        # What a benchmark measures is our controller, not how the server queues.
        "--max-requests-inflight=2000",
        "--max-mutating-requests-inflight=1000",
        *(_with_nodes(layout) if layout.nodes else _alone()),
    ]


def controller_manager(layout: Layout) -> list[str]:
    """Return the controller-manager's command; a lost node is noticed after nine seconds."""
    folder = layout.home.certificates
    controllers = ("*",) if layout.nodes else WITHOUT_NODES
    return [
        *_call(layout, "kube-controller-manager"),
        *_as(layout, "controller-manager", layout.others[0]),
        f"--root-ca-file={folder / 'ca.crt'}",
        f"--service-account-private-key-file={folder / 'service-accounts.key'}",
        f"--cluster-signing-cert-file={folder / 'ca.crt'}",
        f"--cluster-signing-key-file={folder / 'ca.key'}",
        f"--controllers={','.join(controllers)}",
        "--use-service-account-credentials=true",
        "--node-monitor-period=1s",
        "--node-monitor-grace-period=9s",
        "--node-startup-grace-period=20s",
        "--horizontal-pod-autoscaler-sync-period=2s",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]


def scheduler(layout: Layout) -> list[str]:
    """Return the scheduler's command."""
    words = [*_call(layout, "kube-scheduler"), *_as(layout, "scheduler", layout.others[1])]
    return [*words, "--kube-api-qps=200", "--kube-api-burst=400"]


def _call(layout: Layout, name: str) -> Sequence[str]:
    return (str(layout.program), name)


def _as(layout: Layout, who: str, port: int) -> list[str]:
    path = layout.home.folder / f"{who}.kubeconfig"
    write_kubeconfig(path, layout.server, layout.home.certificates, who, layout.home.name)
    return [
        f"--kubeconfig={path}",
        f"--authentication-kubeconfig={path}",
        f"--authorization-kubeconfig={path}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--profiling=false",
    ]


def _with_nodes(layout: Layout) -> list[str]:
    folder = layout.home.certificates
    return [
        "--enable-admission-plugins=NodeRestriction",
        f"--kubelet-certificate-authority={folder / 'ca.crt'}",
        f"--kubelet-client-certificate={folder / 'admin.crt'}",
        f"--kubelet-client-key={folder / 'admin.key'}",
        "--kubelet-preferred-address-types=InternalIP",
        "--default-not-ready-toleration-seconds=2",
        "--default-unreachable-toleration-seconds=2",
        # The control plane has no kube-proxy, so webhooks are called at their pods.
        "--enable-aggregator-routing=true",
    ]


def _alone() -> list[str]:
    # Without a controller-manager nobody makes the service account that every pod would have to have, and the
    # server's own address cannot stand in an Endpoints object, being a loopback one.
    return ["--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none"]
