"""Which taints may a pod ignore because it asks for what they keep for those who need it."""

from __future__ import annotations

from collections.abc import Sequence

from bireme.backends.kubernetes.objects.raw import Object, Template
from bireme.model.job import Role


def missing(role: Role, written: Sequence[Template]) -> list[Object]:
    """The tolerations for the devices that a role asks for, where its template has none that covers them.

    Nodes with devices are by custom tainted with the name of the device, in any effect.
    """
    return [
        {"key": device, "operator": "Exists"}
        for device in _devices(role)
        if not any(_covers(one, device) for one in written)
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


def _covers(toleration: Template, device: str) -> bool:
    """Whether the author thought of the device: then nothing is added to it."""
    return toleration.get("key") == device or tolerates(toleration, device)


def _devices(role: Role) -> list[str]:
    containers = (*role.pod.init_containers, *role.pod.containers)
    asked = {name for one in containers for name, count in one.claims.devices.items() if count}
    # What Kubernetes itself provides has no nodes of its own.
    return sorted(name for name in asked if "/" in name and "kubernetes.io/" not in name)
