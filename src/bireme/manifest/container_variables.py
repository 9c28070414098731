"""Reads the environment that a container asks for: its variables, and where their values come from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from bireme.manifest import known_fields, name_rules
from bireme.manifest.diagnostics import Fields
from bireme.manifest.text.nodes import quoted
from bireme.manifest.volumes import required
from bireme.model.pods import EnvFrom, EnvSource, EnvVar, FieldRef, KeyRef, RefKind, ResourceRef

# `$$` is a dollar sign, so that `$$(A)` refers to nothing.
_REFERENCE = re.compile(r"\$\$|\$\(([^()$\s]+)\)")

# A circle is shown by its beginning, and after a few of them the rest is of no interest.
_MOST_SHOWN = 5
_MOST_CIRCLES = 10


def read_env(container: Fields) -> tuple[EnvVar, ...]:
    """Reads `env` of a container."""
    found: list[tuple[Fields, EnvVar]] = []
    seen: set[str] = set()
    for fields in container.items("env"):
        name = required(fields, "name")
        if name and (wrong := name_rules.wrong_variable(name)):
            fields.error("name", f"Invalid value: {quoted(name)}: {wrong}")
        value = fields.text("value", "")
        source = _source(fields)
        if value and source is not None:
            fields.error("valueFrom", "Invalid value: may not be specified when `value` is not empty")
        if name in seen:
            fields.warn("name", f"the variable {quoted(name)} is set twice; the last one holds")
        seen.add(name)
        fields.done()
        found.append((fields, EnvVar(name, value, source)))
    _check_references(found, open_ended=container.node("envFrom") is not None)
    return tuple(variable for _, variable in found if variable.name)


def read_env_from(container: Fields) -> tuple[EnvFrom, ...]:
    """Reads `envFrom` of a container."""
    found: list[EnvFrom] = []
    for fields in container.items("envFrom"):
        prefix = fields.text("prefix", "")
        given = 0
        for field, kind in (("configMapRef", RefKind.CONFIG_MAP), ("secretRef", RefKind.SECRET)):
            reference = fields.mapping(field)
            if reference is None:
                continue
            given += 1
            is_optional = reference.boolean("optional", False)
            found.append(EnvFrom(kind, required(reference, "name"), prefix, is_optional))
            reference.done()
        if given != 1:
            fields.error("", "must specify one of: `configMapRef` or `secretRef`")
        fields.done()
    return tuple(found)


def references(text: str) -> tuple[str, ...]:
    """Returns the names that a text refers to as `$(NAME)`."""
    return tuple(name for name in _REFERENCE.findall(text) if name)


def _source(variable: Fields) -> EnvSource | None:
    fields = variable.mapping("valueFrom")
    if fields is None:
        return None
    given = [key for key in known_fields.VALUE_SOURCES if fields.node(key) is not None]
    fields.done()
    if len(given) != 1:
        counted = "more than one field" if given else "none"
        fields.error("", f"must specify one of: {', '.join(known_fields.VALUE_SOURCES)}; found {counted}")
        return None
    reference = fields.mapping(given[0])
    if reference is None:
        return None
    source: EnvSource | None = None
    match given[0]:
        case "fieldRef":
            reference.text("apiVersion")
            source = FieldRef(required(reference, "fieldPath"))
        case "configMapKeyRef":
            source = _key(RefKind.CONFIG_MAP, reference)
        case "secretKeyRef":
            source = _key(RefKind.SECRET, reference)
        case "resourceFieldRef":
            divisor = reference.quantity("divisor") or "1"
            container = reference.text("containerName", "")
            # Kubernetes reads a divisor of 0 as the default.
            divisor = "1" if divisor == "0" else divisor
            source = ResourceRef(required(reference, "resource"), container, divisor)
        case _:
            reference.error("", "a variable from a file of the pod is not supported")
    reference.done()
    return source


def _key(kind: RefKind, fields: Fields) -> KeyRef:
    optional = fields.boolean("optional", False)
    return KeyRef(kind, required(fields, "name"), required(fields, "key"), optional)


def _check_references(found: list[tuple[Fields, EnvVar]], *, open_ended: bool) -> None:
    """Refuses variables that refer to each other in a circle, and warns about those that refer onwards.

    Kubernetes expands only what was set before, so a circle always holds a reference that would stay as it
    is written. Open-ended means that other variables may come from elsewhere, as `envFrom` does.
    """
    last = {variable.name: index for index, (_, variable) in enumerate(found)}
    earlier: dict[str, int] = {}
    targets: list[list[int]] = []
    onward: list[int] = []
    for index, (_, variable) in enumerate(found):
        wanted = [name for name in dict.fromkeys(references(variable.value)) if name in last]
        if any(name not in earlier for name in wanted):
            onward.append(index)
        targets.append([earlier.get(name, last[name]) for name in wanted])
        earlier[variable.name] = index
    in_circles: set[int] = set()
    for circle in islice(_circles(targets), _MOST_CIRCLES):
        if open_ended and len(circle) == 1:
            continue
        in_circles.update(circle)
        steps = [f"$({found[index][1].name})" for index in circle]
        middle = steps if len(steps) <= _MOST_SHOWN else [*steps[:_MOST_SHOWN], "..."]
        shown = " -> ".join([*middle, steps[0]])
        text = f"the variables refer to each other in a circle: {shown}"
        found[circle[0]][0].error("value", text, "give one of them a value of its own")
    for index in onward if not open_ended else ():
        if index not in in_circles:
            fields, variable = found[index]
            text = "refers to a variable that is set below it, so it stays as written"
            fields.warn("value", f"{quoted(variable.value)} {text}")


def _circles(targets: list[list[int]]) -> Iterator[list[int]]:
    """Finds circles without recursion: a chain of variables may be long."""
    state = [0] * len(targets)  # 0 unseen, 1 on the path, 2 done
    for start in range(len(targets)):
        if state[start]:
            continue
        path, pending = [start], [iter(targets[start])]
        state[start] = 1
        while path:
            following = next(pending[-1], None)
            if following is None:
                state[path.pop()] = 2
                pending.pop()
            elif state[following] == 1:
                yield path[path.index(following) :]
            elif state[following] == 0:
                state[following] = 1
                path.append(following)
                pending.append(iter(targets[following]))
