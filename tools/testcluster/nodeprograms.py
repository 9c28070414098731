"""How are containerd, kubelet and kube-proxy of a node set up; each setting that is not obvious says why."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tools.testcluster.certificates import write_kubeconfig
from tools.testcluster.controlplane import DNS_ADDRESS, DOMAIN, POD_CIDR, SERVICE_CIDR, Layout
from tools.testcluster.nodes import DEVICE, Network, Plan, Program

CPUS = 9
"""Processors that a node gives to pods, however few the machine has."""
SOCKET = "/run/containerd/containerd.sock"
PAUSE_IMAGE = "bireme.test/pause:1"
PREFIX = "10.200.0"
CONTROL_ADDRESS = f"{PREFIX}.1"


@dataclass(frozen=True)
class Seat:
    """The place of one node in the cluster's network."""

    number: int

    @property
    def name(self) -> str:
        return f"node{self.number}"

    @property
    def address(self) -> str:
        return f"{PREFIX}.{10 + self.number}"

    @property
    def pods(self) -> str:
        return f"10.244.{self.number}.0/24"


def plan(layout: Layout, seat: Seat, seats: list[Seat]) -> Plan:
    """Write a node's configuration and return what its first process has to arrange."""
    folder = layout.home.node(seat.name)
    folder.mkdir(parents=True, exist_ok=True)
    _containerd(layout, seat)
    _kubelet(layout, seat)
    _proxy(layout, seat)
    routes = {one.pods: one.address for one in seats if one != seat}
    # Addresses of services are rewritten on their way out, but must have a way.
    routes[SERVICE_CIDR] = ""
    programs = {
        "containerd": Program(["containerd", "--config", str(folder / "containerd.toml")]),
        "kubelet": Program(
            [
                str(layout.program),
                "kubelet",
                f"--config={folder / 'kubelet.json'}",
                f"--kubeconfig={folder / 'kubelet.kubeconfig'}",
                f"--hostname-override={seat.name}",
                f"--node-ip={seat.address}",
            ],
            after=SOCKET,
        ),
        "kube-proxy": Program([str(layout.program), "kube-proxy", f"--config={folder / 'proxy.json'}"]),
    }
    binds = {
        "/var/lib/kubelet": str(folder / "kubelet"),
        "/var/lib/cni": str(folder / "cni-results"),
        "/var/log": str(folder / "log"),
    }
    return Plan(seat.name, Network(DEVICE, f"{seat.address}/24", False, routes), programs, binds, CPUS)


def _containerd(layout: Layout, seat: Seat) -> None:
    folder = layout.home.node(seat.name)
    (folder / "containerd.toml").write_text(
        f"""version = 2
root = "{folder / "containerd"}"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.internal.v1.opt",
]
[grpc]
address = "{SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE_IMAGE}"
# Without CAP_SYS_RESOURCE nobody may protect a process from the memory killer, and runc would die of trying.
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{folder / "cni"}"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
"""
    )
    # Point-to-point links are routed, so a service whose pod is on the same node needs no bridge filter.
    subnet = {
        "type": "host-local",
        "dataDir": "/run/cni-addresses",
        "ranges": [[{"subnet": seat.pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    network = {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [{"type": "ptp", "ipMasq": False, "ipam": subnet}],
    }
    (folder / "cni").mkdir(exist_ok=True)
    (folder / "cni" / "pods.conflist").write_text(json.dumps(network, indent=2))


def _kubelet(layout: Layout, seat: Seat) -> None:
    folder, certificates = layout.home.node(seat.name), layout.home.certificates
    server = f"https://{layout.address}:{layout.api_port}"
    write_kubeconfig(folder / "kubelet.kubeconfig", server, certificates, seat.name, layout.home.name)
    # Empty: what the machine asks has no business in a pod.
    (folder / "resolv.conf").write_text("")
    # The disk is the machine's, and how full it is says nothing about the cluster.
    thresholds = {
        "memory.available": "1%",
        "nodefs.available": "1%",
        "imagefs.available": "1%",
        "nodefs.inodesFree": "1%",
    }
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": seat.address,
        "authentication": {
            "x509": {"clientCAFile": str(certificates / "ca.crt")},
            "anonymous": {"enabled": False},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(certificates / f"{seat.name}.crt"),
        "tlsPrivateKeyFile": str(certificates / f"{seat.name}.key"),
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": DOMAIN,
        "resolvConf": str(folder / "resolv.conf"),
        "evictionHard": thresholds,
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "nodeStatusUpdateFrequency": "2s",
        "nodeLeaseDurationSeconds": 8,
        "serializeImagePulls": False,
        "volumePluginDir": str(folder / "volume-plugins"),
        "healthzBindAddress": "127.0.0.1",
        "maxPods": 200,
    }
    (folder / "kubelet.json").write_text(json.dumps(config, indent=2))


def _proxy(layout: Layout, seat: Seat) -> None:
    folder = layout.home.node(seat.name)
    server = f"https://{layout.address}:{layout.api_port}"
    write_kubeconfig(folder / "proxy.kubeconfig", server, layout.home.certificates, "proxy", layout.home.name)
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "hostnameOverride": seat.name,
        "clientConnection": {"kubeconfig": str(folder / "proxy.kubeconfig")},
        "clusterCIDR": POD_CIDR,
        "detectLocalMode": "ClusterCIDR",
        # These limits belong to the whole machine.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "metricsBindAddress": "127.0.0.1:10249",
    }
    (folder / "proxy.json").write_text(json.dumps(config, indent=2))
