"""How do pods find each other by name: CoreDNS beside the control plane, behind the usual service.

It outlives every node there, so a test that cuts a node's power does not lose the names with it.
"""

from __future__ import annotations

from tools.testcluster.certificates import write_kubeconfig
from tools.testcluster.controlplane import DNS_ADDRESS, DOMAIN, Layout
from tools.testcluster.probing import Probe

ZONES = f"{DOMAIN} in-addr.arpa ip6.arpa"
LABELS = {"k8s-app": "kube-dns", "kubernetes.io/name": "CoreDNS"}
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def coredns(layout: Layout) -> list[str]:
    """Write CoreDNS's configuration and return its command."""
    folder = layout.home.folder
    kubeconfig = folder / "coredns.kubeconfig"
    write_kubeconfig(kubeconfig, layout.server, layout.home.certificates, "coredns", layout.home.name)
    # `cache 30` is what clusters usually have, with all that follows for names asked too early. Other names
    # get a clear no: without it a resolver takes them for a failing server and asks again.
    (folder / "Corefile").write_text(
        f"""{ZONES} {{
    errors
    ready
    kubernetes {ZONES} {{
        kubeconfig {kubeconfig} {layout.home.name}
        pods insecure
    }}
    cache 30
    loadbalance
}}
. {{
    errors
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""
    )
    return [str(layout.program), "coredns", "-conf", str(folder / "Corefile")]


def make_objects(probe: Probe, address: str) -> None:
    """Let CoreDNS read what it serves, and lead the usual address to it."""
    probe.apply(f"{RBAC}/clusterroles", _role())
    probe.apply(f"{RBAC}/clusterrolebindings", _binding())
    probe.apply("/api/v1/namespaces/kube-system/services", _service())
    probe.apply("/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices", _endpoints(address))


def _role() -> dict[str, object]:
    rules = [
        {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": _meta("system:coredns"),
        "rules": rules,
    }


def _binding() -> dict[str, object]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": _meta("system:coredns"),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:coredns"}],
    }


def _service() -> dict[str, object]:
    ports = [{"name": name, "port": 53, "protocol": protocol} for name, protocol in _PORTS]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**_meta("kube-dns"), "namespace": "kube-system", "labels": LABELS},
        "spec": {"clusterIP": DNS_ADDRESS, "ports": ports},
    }


def _endpoints(address: str) -> dict[str, object]:
    labels = {
        **LABELS,
        "kubernetes.io/service-name": "kube-dns",
        "endpointslice.kubernetes.io/managed-by": "testcluster",
    }
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {**_meta("kube-dns"), "namespace": "kube-system", "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": name, "port": 53, "protocol": protocol} for name, protocol in _PORTS],
    }


def _meta(name: str) -> dict[str, object]:
    return {"name": name}


_PORTS = (("dns", "UDP"), ("dns-tcp", "TCP"))
