"""What environment and arguments does a container see: how a kubelet puts them together."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction

from msgspec import Struct

from bireme.model import quantities
from bireme.model.pods import Container, EnvSource, EnvVar, FieldRef, KeyRef, RefKind, ResourceRef

References = Mapping[tuple[RefKind, str], Mapping[str, str]]
"""The keys of each ConfigMap and Secret that is at hand."""


class Facts(Struct, frozen=True):
    """What a replica may ask about itself."""

    name: str
    namespace: str
    uid: str
    ip: str
    node: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


class Unresolved(Exception):
    """A variable that cannot be given a value; the text names it and what is missing."""


def environment(
    container: Container, facts: Facts, references: References, inherited: Mapping[str, str]
) -> dict[str, str]:
    """The container's variables in their final values, on top of what the place gives."""
    values = dict(inherited)
    for bundle in container.env_from:
        keys = references.get((bundle.kind, bundle.name))
        if keys is None and not bundle.optional:
            raise Unresolved(f"{bundle.kind} {bundle.name} (envFrom of container {container.name})")
        values |= {bundle.prefix + key: value for key, value in (keys or {}).items()}
    own: dict[str, str] = {}
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
    if variable.source is None:
        return expand(variable.value, earlier)
    return _from_source(variable.name, variable.source, container, facts, references)


def _from_source(
    name: str, source: EnvSource, container: Container, facts: Facts, references: References
) -> str | None:
    match source:
        case FieldRef(path):
            return _field(path, facts)
        case KeyRef(kind, owner, key, optional):
            value = references.get((kind, owner), {}).get(key)
            if value is None and not optional:
                raise Unresolved(
                    f"key {key} of {kind} {owner} (variable {name} of container {container.name})"
                )
            return value
        case ResourceRef(resource, _, divisor):
            return _resource(resource, divisor, container)


def _field(path: str, facts: Facts) -> str:
    keyed = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
    if keyed:
        table = facts.labels if keyed.group(1) == "labels" else facts.annotations
        return table.get(keyed.group(2), "")
    known = {
        "metadata.name": facts.name,
        "metadata.namespace": facts.namespace,
        "metadata.uid": facts.uid,
        "status.podIP": facts.ip,
        "status.podIPs": facts.ip,
        "status.hostIP": facts.ip,
        "status.hostIPs": facts.ip,
        "spec.nodeName": facts.node,
        "spec.serviceAccountName": "default",
    }
    if path not in known:
        raise Unresolved(f"field {path}")
    return known[path]


def _resource(resource: str, divisor: str, container: Container) -> str:
    side, _, name = resource.partition(".")
    stock = container.limits if side == "limits" else container.claims
    amount = {"cpu": Fraction(stock.cpu or 0, 1000), "memory": Fraction(stock.memory or 0)}.get(
        name, Fraction(stock.devices.get(name, 0))
    )
    return str(math.ceil(amount / (Fraction(quantities.parse(divisor)) or 1)))
