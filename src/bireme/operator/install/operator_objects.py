"""Builds what is installed beside the definitions: the operator, and the rights that it needs."""

from __future__ import annotations

from msgspec import Struct

from bireme import __version__, kinds
from bireme.kinds import SERVED
from bireme.kinds.contract import GROUP
from bireme.operator.install import crds

NAME = "bireme-operator"
NAMESPACE = "bireme-system"
UNELECTED = (f"{NAME}-unelected", *(f"{NAME}-unelected-{number}" for number in range(2, 6)))
"""The leases of which an operator without election takes one, to show that it lives.

Rights can be given for these names only, so there are few of them; more operators at once are a mistake.
"""
IMAGE = f"{NAME}:{__version__}"
METRICS_PORT = 8080
HEALTH_PORT = 8081

METRICS_LABEL = "bireme.io/metrics"
"""With the value `allowed` on a namespace, its pods may read the metrics behind the NetworkPolicy."""

Object = dict[str, object]

_RBAC = "rbac.authorization.k8s.io/v1"
_SELECTOR = {"app.kubernetes.io/name": NAME}
_USER = 65532
"""Nobody in particular: the number that images without users use for one."""


class OperatorSettings(Struct, frozen=True):
    """What may differ between clusters."""

    namespace: str = NAMESPACE
    image: str = IMAGE
    """Empty for the one that the operator has already."""
    kinds: tuple[str, ...] = SERVED
    """Those that the operator serves; its rights go no further."""
    network_policy: bool = False
    """Whether a NetworkPolicy keeps others away from the operator's ports."""


def namespace(settings: OperatorSettings) -> Object:
    # The pods of the operator keep to the strictest standard; those of jobs run in namespaces of their own.
    labels = {**crds.OURS, "pod-security.kubernetes.io/enforce": "restricted"}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": settings.namespace, "labels": labels},
    }


def rights(settings: OperatorSettings) -> list[Object]:
    """The operator's account and what it may do; and what users of namespaces may do with jobs."""
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": settings.namespace}
    # In its own namespace it holds the lease by which one of several leads. The other leases are those of
    # operators which were told not to take part in an election; listing them shows that others are there.
    lease = _rule("coordination.k8s.io", ["leases"], ["get", "patch"])
    unelected = _rule("coordination.k8s.io", ["leases"], ["delete", "get", "patch"])
    own = [
        _rule("coordination.k8s.io", ["leases"], ["create", "list"]),
        {**lease, "resourceNames": [NAME]},
        {**unelected, "resourceNames": [*UNELECTED]},
    ]
    return [
        _object("v1", "ServiceAccount", NAME, settings),
        _object(_RBAC, "ClusterRole", NAME, rules=_cluster_rules(settings.kinds)),
        _object(_RBAC, "ClusterRoleBinding", NAME, roleRef=_role_ref("ClusterRole"), subjects=[subject]),
        _object(_RBAC, "Role", NAME, settings, rules=own),
        _object(_RBAC, "RoleBinding", NAME, settings, roleRef=_role_ref("Role"), subjects=[subject]),
        _for_users("edit", ["create", "delete", "deletecollection", "patch", "update"], ("admin", "edit")),
        _for_users("view", ["get", "list", "watch"], ("admin", "edit", "view")),
    ]


def workload(settings: OperatorSettings) -> list[Object]:
    """The operator itself, and the Service behind which its metrics are."""
    pod = {
        "serviceAccountName": NAME,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(settings)],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}],
    }
    template = {"metadata": {"labels": {**crds.OURS, **_SELECTOR}}, "spec": pod}
    port = {"name": "metrics", "port": METRICS_PORT, "targetPort": "metrics"}
    return [
        _object(
            "apps/v1",
            "Deployment",
            NAME,
            settings,
            spec={"replicas": 1, "selector": {"matchLabels": _SELECTOR}, "template": template},
        ),
        _object("v1", "Service", NAME, settings, spec={"selector": _SELECTOR, "ports": [port]}),
    ]


def network(settings: OperatorSettings) -> list[Object]:
    """What keeps others away from the operator's ports, where that is wanted.

    Probes come from the pod's own node, whose traffic no NetworkPolicy stops.
    """
    if not settings.network_policy:
        return []
    scrapers = {"namespaceSelector": {"matchLabels": {METRICS_LABEL: "allowed"}}}
    ingress = {"from": [scrapers], "ports": [{"port": "metrics"}]}
    spec = {"podSelector": {"matchLabels": _SELECTOR}, "policyTypes": ["Ingress"], "ingress": [ingress]}
    return [_object("networking.k8s.io/v1", "NetworkPolicy", NAME, settings, spec=spec)]


def _cluster_rules(served: tuple[str, ...]) -> list[Object]:
    jobs = [kinds.named(name).plural for name in served]
    keep = ["create", "delete", "get", "patch"]
    return [
        # Jobs are deleted when their time to live has passed.
        _rule(GROUP, jobs, ["delete", "get", "list", "watch"]),
        _rule(GROUP, [f"{job}/status" for job in jobs], ["patch"]),
        # To own objects that block the deletion of their job.
        _rule(GROUP, [f"{job}/finalizers" for job in jobs], ["update"]),
        _rule("", ["pods"], ["create", "delete", "get", "list", "watch"]),
        _rule("", ["services"], ["create", "delete", "get"]),
        _rule("", ["events"], ["create"]),
        _rule("", ["nodes"], ["get", "list", "watch"]),
        _rule("scheduling.k8s.io", ["priorityclasses"], ["list"]),
        _rule("scheduling.volcano.sh", ["podgroups"], [*keep, "list", "watch"]),
        _rule("scheduling.x-k8s.io", ["podgroups"], [*keep, "list", "watch"]),
        *(
            _rule(right.group, list(right.resources), list(right.verbs))
            for name in served
            for right in kinds.named(name).rights
        ),
    ]


def _for_users(word: str, verbs: list[str], roles: tuple[str, ...]) -> Object:
    """Rights on jobs that become part of the cluster's usual roles for people."""
    subresources = ("", "/scale") if word == "edit" else ("", "/scale", "/status")
    covered = [f"{kinds.named(kind).plural}{sub}" for kind in SERVED for sub in subresources]
    labels = {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in roles}
    found = _object(_RBAC, "ClusterRole", f"bireme-jobs-{word}", rules=[_rule(GROUP, covered, verbs)])
    return {**found, "metadata": {"name": f"bireme-jobs-{word}", "labels": {**crds.OURS, **labels}}}


def _container(settings: OperatorSettings) -> Object:
    chosen = () if settings.kinds == SERVED else settings.kinds
    return {
        "name": "operator",
        "image": settings.image,
        "imagePullPolicy": "IfNotPresent",
        # So that its last words can be read in the pod's status, without a right to logs.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "args": [
            "operator",
            "--leader-elect",
            "--lease-namespace",
            "$(POD_NAMESPACE)",
            # Probes and Prometheus come to the pod's address, so it listens there and nowhere else.
            *("--health-bind", "$(POD_IP)", "--metrics-bind", "$(POD_IP)"),
            *(word for kind in chosen for word in ("--kind", kind)),
        ],
        # The root file system is read-only; what is left for a bug report goes where it may be written.
        "env": [
            {"name": "BIREME_HOME", "value": "/tmp/bireme"},
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
        "ports": [
            {"name": "metrics", "containerPort": METRICS_PORT},
            {"name": "health", "containerPort": HEALTH_PORT},
        ],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "health"}, "initialDelaySeconds": 10},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "health"}, "periodSeconds": 5},
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }


def _rule(group: str, resources: list[str], verbs: list[str]) -> Object:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _role_ref(kind: str) -> Object:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": NAME}


def _object(
    api_version: str, kind: str, name: str, settings: OperatorSettings | None = None, **body: object
) -> Object:
    metadata: Object = {"name": name, "labels": dict(crds.OURS)}
    if settings is not None:
        metadata["namespace"] = settings.namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}
