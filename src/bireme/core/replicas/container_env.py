"""Puts together the environment and the arguments of a container as a kubelet does."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import assert_never

from msgspec import Struct

from bireme.model import quantities
from bireme.model.pods import Container, EnvVar, FieldRef, KeyRef, RefKind, ResourceRef

References = Mapping[tuple[RefKind, str], Mapping[str, str]]
"""The keys of each ConfigMap and Secret that is available."""


class Facts(Struct, frozen=True):
    """The facts that the downward API tells a replica about itself."""

    name: str
    namespace: str
    uid: str
    ip: str
    node: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}

    def field(self, path: str) -> str:
        """The value of a field of the pod. Raises Unresolved if no kubelet knows the path."""
        keyed = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
        if keyed:
            table = self.labels if keyed.group(1) == "labels" else self.annotations
            return table.get(keyed.group(2), "")
        known = {
            "metadata.name": self.name,
            "metadata.namespace": self.namespace,
            "metadata.uid": self.uid,
            "status.podIP": self.ip,
            "status.podIPs": self.ip,
            "status.hostIP": self.ip,
            "status.hostIPs": self.ip,
            "spec.nodeName": self.node,
            "spec.serviceAccountName": "default",
        }
        if path not in known:
            raise Unresolved(f"field {path}")
        return known[path]


class Unresolved(Exception):
    """A variable that cannot be given a value; the text names it and what is missing."""


def environment(
    container: Container, facts: Facts, references: References, inherited: Mapping[str, str]
) -> dict[str, str]:
    """The container's variables in their final values, on top of those that it inherits."""
    values = dict(inherited)
    for bundle in container.env_from:
        keys = references.get((bundle.kind, bundle.name))
        if keys is None and not bundle.optional:
            raise Unresolved(f"{bundle.kind} {bundle.name} (envFrom of container {container.name})")
        values |= {bundle.prefix + key: value for key, value in (keys or {}).items()}
    own: dict[str, str] = {}
    # In the order in which they are written: `$(NAME)` refers to variables that stand before.
    for variable in container.env:
        if variable.weak and variable.name in values | own:
            continue
        value = _value(variable, container, facts, references, values | own)
        if value is not None:
            own[variable.name] = value
    return values | own


def argv(container: Container, values: Mapping[str, str]) -> tuple[str, ...]:
    """Command and arguments with `$(VAR)` expanded."""
    return tuple(expand(part, values) for part in (*container.command, *container.args))


_REFERENCE = re.compile(r"\$\$|\$\(([^()$\s]+)\)")


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by its value; an unknown name stays as it is, and `$$` is a dollar sign."""

    def replaced(found: re.Match[str]) -> str:
        name = found.group(1)
        return "$" if name is None else values.get(name, found.group(0))

    return _REFERENCE.sub(replaced, text)


def _value(
    variable: EnvVar,
    container: Container,
    facts: Facts,
    references: References,
    earlier: Mapping[str, str],
) -> str | None:
    match variable.source:
        case None:
            return expand(variable.value, earlier)
        case FieldRef(path):
            return facts.field(path)
        case KeyRef(kind, owner, key, optional):
            value = references.get((kind, owner), {}).get(key)
            if value is None and not optional:
                where = f"variable {variable.name} of container {container.name}"
                raise Unresolved(f"key {key} of {kind} {owner} ({where})")
            return value
        case ResourceRef(resource, _, divisor):
            side, _, name = resource.partition(".")
            stock = container.limits if side == "limits" else container.claims
            amounts = {"cpu": Fraction(stock.cpu or 0, 1000), "memory": Fraction(stock.memory or 0)}
            amount = amounts.get(name, Fraction(stock.devices.get(name, 0)))
            # Rounded up, as a kubelet does: a program that divides by its cores must not be told 0.
            return str(math.ceil(amount / (Fraction(quantities.parse(divisor)) or 1)))
        case _:
            assert_never(variable.source)
