"""What environment does a container ask for: its variables, and where their values come from."""

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
    found = [(fields, _variable(fields)) for fields in container.items("env")]
    seen: set[str] = set()
    for fields, variable in found:
        if variable.name in seen:
            fields.warn("name", f"the variable {quoted(variable.name)} is set twice; the last one holds")
        seen.add(variable.name)
    _check_references(found, open_ended=container.node("envFrom") is not None)
    return tuple(variable for _, variable in found if variable.name)


def read_env_from(container: Fields) -> tuple[EnvFrom, ...]:
    """Reads `envFrom` of a container."""
    return tuple(source for fields in container.items("envFrom") for source in _all_keys(fields))


def references(text: str) -> tuple[str, ...]:
    """Returns the names that a text refers to as `$(NAME)`."""
    return tuple(name for name in _REFERENCE.findall(text) if name)


def _variable(fields: Fields) -> EnvVar:
    name = required(fields, "name")
    if name and (wrong := name_rules.wrong_variable(name)):
        fields.error("name", f"Invalid value: {quoted(name)}: {wrong}")
    value = fields.text("value", "")
    source = _source(fields)
    if value and source is not None:
        fields.error("valueFrom", "Invalid value: may not be specified when `value` is not empty")
    fields.done()
    return EnvVar(name, value, source)


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
    source = _reference(given[0], reference)
    reference.done()
    return source


def _reference(type_: str, fields: Fields) -> EnvSource | None:
    match type_:
        case "fieldRef":
            fields.text("apiVersion")
            return FieldRef(required(fields, "fieldPath"))
        case "configMapKeyRef":
            return _key(RefKind.CONFIG_MAP, fields)
        case "secretKeyRef":
            return _key(RefKind.SECRET, fields)
        case "resourceFieldRef":
            divisor = fields.quantity("divisor") or "1"
            container = fields.text("containerName", "")
            # Kubernetes reads a divisor of 0 as the default.
            return ResourceRef(required(fields, "resource"), container, "1" if divisor == "0" else divisor)
        case _:
            fields.error("", "a variable from a file of the pod is not supported")
            return None


def _key(kind: RefKind, fields: Fields) -> KeyRef:
    optional = fields.boolean("optional", False)
    return KeyRef(kind, required(fields, "name"), required(fields, "key"), optional)


def _all_keys(fields: Fields) -> Iterator[EnvFrom]:
    prefix = fields.text("prefix", "")
    given = 0
    for field, kind in (("configMapRef", RefKind.CONFIG_MAP), ("secretRef", RefKind.SECRET)):
        reference = fields.mapping(field)
        if reference is None:
            continue
        given += 1
        yield EnvFrom(kind, required(reference, "name"), prefix, reference.boolean("optional", False))
        reference.done()
    if given != 1:
        fields.error("", "must specify one of: `configMapRef` or `secretRef`")
    fields.done()


def _check_references(found: list[tuple[Fields, EnvVar]], *, open_ended: bool) -> None:
    """Refuses variables that refer to each other in a circle, and warns about those that refer onwards.

    Kubernetes expands only what was set before, so a circle always holds a reference that would stay as it
    is written. Open-ended means that other variables may come from elsewhere, as `envFrom` does.
    """
    ahead, onward = _targets([variable for _, variable in found])
    in_circles: set[int] = set()
    for circle in islice(_circles(ahead), _MOST_CIRCLES):
        if open_ended and len(circle) == 1:
            continue
        in_circles.update(circle)
        steps = [f"$({found[index][1].name})" for index in circle]
        middle = steps if len(steps) <= _MOST_SHOWN else [*steps[:_MOST_SHOWN], "..."]
        shown = " -> ".join([*middle, steps[0]])
        found[circle[0]][0].error(
            "value",
            f"the variables refer to each other in a circle: {shown}",
            "give one of them a value of its own",
        )
    if open_ended:
        return
    for index in onward:
        if index not in in_circles:
            fields, variable = found[index]
            fields.warn(
                "value",
                f"{quoted(variable.value)} refers to a variable that is set below it, so it stays as written",
            )


def _targets(variables: list[EnvVar]) -> tuple[list[list[int]], list[int]]:
    """Returns which variables each one refers to, and those that refer to one further below."""
    later: dict[str, int] = {}
    for index, variable in enumerate(variables):
        later[variable.name] = index
    earlier: dict[str, int] = {}
    targets: list[list[int]] = []
    onward: list[int] = []
    for index, variable in enumerate(variables):
        wanted = [name for name in dict.fromkeys(references(variable.value)) if name in later]
        if any(name not in earlier for name in wanted):
            onward.append(index)
        targets.append([earlier.get(name, later[name]) for name in wanted])
        earlier[variable.name] = index
    return targets, onward


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
