"""Builds and reads the paths of the API: where an object is, and what a path is about."""

from __future__ import annotations

from urllib.parse import quote

from msgspec import Struct


def path(api_version: str, plural: str, namespace: str = "", name: str = "", sub: str = "") -> str:
    """Returns the path of a resource, of one object, or of a subresource of it.

    Without a namespace it is that of a resource without namespaces, or of all namespaces together.
    """
    parts = ["/apis" if "/" in api_version else "/api", api_version]
    if namespace:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(plural)
    if name:
        parts.append(quote(name, safe=""))
    if sub:
        parts.append(sub)
    return "/".join(parts)


class Target(Struct, frozen=True):
    """What a path is about."""

    resource: str
    """The plural, with its subresource: `pods`, `pods/status`."""
    api_version: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def kind(self) -> str:
        """The resource as an administrator writes it: `pods`, `tfjobs.kubeflow.org`."""
        plural = self.resource.partition("/")[0]
        group = self.api_version.rpartition("/")[0]
        return f"{plural}.{group}" if group else plural

    @property
    def shown(self) -> str:
        """The object as `kubectl` names it (`pods/mnist-worker-0`), or its resource where there is none."""
        return f"{self.kind}/{self.name}" if self.name else self.kind


def target(url_path: str) -> Target:
    """Reads a path back; one that is not of a resource, such as `/version`, is its own resource."""
    url_path = url_path.partition("?")[0]
    parts = url_path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        version, rest = parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        version, rest = f"{parts[1]}/{parts[2]}", parts[3:]
    else:
        return Target(url_path.strip("/"))
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in NAMESPACE_SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    sub = "/".join(rest[2:])
    name = rest[1] if len(rest) > 1 else ""
    return Target(f"{rest[0]}/{sub}" if sub else rest[0], version, namespace, name)


NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
