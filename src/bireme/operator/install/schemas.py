"""Declares the fields of a job in the cluster: structural schemas, small because pod templates stay open.

Of a pod template only what rules look at, and what people most often write wrongly, is declared. Everything
else in it is kept as it is: the API server checks it when the pod is created.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, Union, get_args, get_origin

import msgspec

from bireme.kinds.contract import FORBIDDEN, MOST_REPLICAS, CelRule
from bireme.manifest import known_fields
from bireme.manifest.roles import RESTARTS
from bireme.model.job import CleanPods
from bireme.operator.install import cel_rules

Schema = dict[str, object]

# Bounds that no manifest reaches. Without them an API server counts every rule as too expensive.
_MOST_CONTAINERS = 16
_MOST_RESOURCES = 32
_MOST_QUANTITY = 40
_MOST_MANAGER = 100
_MOST_VOLUMES = 50


def with_rules(schema: Schema, found: Sequence[CelRule]) -> Schema:
    """The schema, checked by rules as well."""
    return {**schema, "x-kubernetes-validations": msgspec.to_builtins(list(found))} if found else schema


def closed(properties: dict[str, Schema], required: tuple[str, ...] = (), description: str = "") -> Schema:
    """An object whose other fields are refused or dropped."""
    schema: Schema = {"type": "object", "properties": properties}
    if description:
        schema["description"] = description
    if required:
        schema["required"] = list(required)
    return schema


def opened(properties: dict[str, Schema] | None = None, required: tuple[str, ...] = ()) -> Schema:
    """An object whose other fields are kept as they are."""
    schema: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if properties:
        schema["properties"] = properties
    if required:
        schema["required"] = list(required)
    return schema


def text(description: str = "", most: int = 0, least: int = 0) -> Schema:
    schema: Schema = {"type": "string"}
    if description:
        schema["description"] = description
    if most:
        schema["maxLength"] = most
    if least:
        schema["minLength"] = least
    return schema


def choice(values: Iterable[str], description: str = "") -> Schema:
    return {**text(description), "enum": [str(value) for value in values]}


def count(
    description: str = "", *, format: str = "int32", least: int | None = 0, most: int | None = None
) -> Schema:
    schema: Schema = {"type": "integer", "format": format}
    if description:
        schema["description"] = description
    if least is not None:
        schema["minimum"] = least
    if most is not None:
        schema["maximum"] = most
    return schema


def mapping(values: Schema, most: int = 0) -> Schema:
    schema: Schema = {"type": "object", "additionalProperties": values}
    return {**schema, "maxProperties": most} if most else schema


def listing(items: Schema, *, key: str = "", most: int = 0, least: int = 0) -> Schema:
    """A list; with a key, that of no two items is the same."""
    schema: Schema = {"type": "array", "items": items}
    if key:
        schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    if most:
        schema["maxItems"] = most
    if least:
        schema["minItems"] = least
    return schema


# --- Replicas ---------------------------------------------------------------------------------------------


def role() -> Schema:
    """What a manifest says about one replica type."""
    return closed(
        {
            "replicas": count("How many; 1 if absent.", most=MOST_REPLICAS),
            "restartPolicy": choice(RESTARTS, "What happens when a replica fails."),
            "template": pod_template(),
        },
        required=("template",),
    )


def pod_template() -> Schema:
    apart = CelRule(
        "!has(self.initContainers) || self.initContainers.all(one, "
        "!self.containers.exists(other, other.name == one.name))",
        "an init container has the name of another container",
    )
    declared = "has(self.volumes) && self.volumes.exists(volume, volume.name == mount.name)"
    mounted = [
        CelRule(
            f"!has(self.{field}) || self.{field}.all(one, !has(one.volumeMounts) "
            f"|| one.volumeMounts.all(mount, {declared}))",
            "a mount names a volume that is not declared under volumes of the same template",
            field_path=f".{field}",
        )
        for field in ("containers", "initContainers")
    ]
    volume = opened({"name": _label()}, required=("name",))
    pod = opened(
        {
            "containers": listing(_container(), key="name", most=_MOST_CONTAINERS, least=1),
            "initContainers": listing(_container(), key="name", most=_MOST_CONTAINERS),
            "volumes": listing(volume, key="name", most=_MOST_VOLUMES),
            "terminationGracePeriodSeconds": count(format="int64"),
        },
        required=("containers",),
    )
    texts = mapping(text())
    metadata = opened({"labels": texts, "annotations": texts})
    return opened({"metadata": metadata, "spec": with_rules(pod, [apart, *mounted])}, required=("spec",))


_KNOWN_RESOURCES = CelRule(
    "self.all(name, name.contains('/') || name in ["
    + ", ".join(f"'{name}'" for name in known_fields.STANDARD_RESOURCES)
    + "] || name.startsWith('hugepages-'))",
    "must be a standard resource for containers: write cpu, memory, or the full name of a device such as "
    "nvidia.com/gpu",
)
_WHOLE_DEVICES = CelRule(
    "self.all(name, !name.contains('/') || !isQuantity(string(self[name])) "
    "|| quantity(string(self[name])).isInteger())",
    "the number of a device must be an integer",
)
_WITHIN_LIMITS = CelRule(
    "!has(self.requests) || !has(self.limits) || self.requests.all(name, !(name in self.limits) "
    "|| !isQuantity(string(self.requests[name])) || !isQuantity(string(self.limits[name])) "
    "|| !quantity(string(self.requests[name])).isGreaterThan(quantity(string(self.limits[name]))))",
    "a request must be less than or equal to the limit",
)


def _container() -> Schema:
    variable = opened({"name": text(least=1), "value": text()}, required=("name",))
    port = opened({"containerPort": count(least=1, most=65535), "name": text()}, required=("containerPort",))
    mount = opened(
        {"name": text(least=1, most=cel_rules.MOST_NAME), "mountPath": text(least=1)},
        required=("name", "mountPath"),
    )
    amounts = with_rules(quantities(), [_KNOWN_RESOURCES, _WHOLE_DEVICES])
    resources = opened({"requests": amounts, "limits": amounts})
    return opened(
        {
            "name": _label(),
            "image": text(least=1),
            "command": listing(text()),
            "args": listing(text()),
            "workingDir": text(),
            "env": listing(variable),
            "ports": listing(port),
            "resources": with_rules(resources, [_WITHIN_LIMITS]),
            "volumeMounts": listing(mount, key="mountPath", most=_MOST_VOLUMES),
        },
        required=("name", "image"),
    )


def _label() -> Schema:
    rule = CelRule(f"self.matches('{cel_rules.LABEL_1123}')", cel_rules.SENTENCE_1123)
    return with_rules(text(most=cel_rules.MOST_NAME), [rule])


def quantities() -> Schema:
    """A mapping of resource names to amounts such as 2, 500m or 4Gi."""
    amount: Schema = {"x-kubernetes-int-or-string": True, "maxLength": _MOST_QUANTITY}
    is_one = CelRule(
        "isQuantity(string(self))",
        "is not a quantity; write a number such as 2, 500m or 4Gi",
        "'\"' + string(self) + '\" is not a quantity; write a number such as 2, 500m or 4Gi'",
    )
    counts_up = CelRule(
        "!isQuantity(string(self)) || !quantity(string(self)).isLessThan(quantity('0'))",
        "must not be negative",
    )
    return mapping(with_rules(amount, [is_one, counts_up]), _MOST_RESOURCES)


# --- Run policy -------------------------------------------------------------------------------------------


def run_policy(managers: list[str]) -> Schema:
    """What all kinds share; always there, because clients of these kinds rely on it."""
    fixed = CelRule(
        "has(self.managedBy) == has(oldSelf.managedBy) "
        "&& (!has(self.managedBy) || self.managedBy == oldSelf.managedBy)",
        "spec.runPolicy.managedBy is immutable",
        reason=FORBIDDEN,
        field_path=".managedBy",
    )
    queue = CelRule("self == oldSelf", "spec.runPolicy.schedulingPolicy.queue is immutable")
    scheduling = closed(
        {
            "minAvailable": count(),
            "minResources": quantities(),
            "priorityClass": text(),
            "queue": with_rules(text(most=cel_rules.MOST_TEXT), [queue]),
            "scheduleTimeoutSeconds": count(),
        }
    )
    policy = closed(
        {
            "activeDeadlineSeconds": count("Seconds after which the job fails.", format="int64"),
            "backoffLimit": count("Crashes that are tolerated; any number if absent."),
            "cleanPodPolicy": choice(CleanPods, "Which pods are deleted when the job has ended."),
            "managedBy": {**choice(["", *managers], "Who looks after the job."), "maxLength": _MOST_MANAGER},
            "schedulingPolicy": scheduling,
            "suspend": {"type": "boolean", "description": "Whether the job is suspended."},
            "ttlSecondsAfterFinished": count("Seconds after which an ended job is deleted."),
        }
    )
    return {**with_rules(policy, [fixed]), "default": {}}


# --- The fields that only one kind has --------------------------------------------------------------------


def options(declared: type[msgspec.Struct]) -> dict[str, Schema]:
    """The fields that a kind declares by the types of its `Options`."""
    return {each.encode_name: _option(each.type) for each in msgspec.structs.fields(declared)}


def _option(wanted: Any) -> Schema:  # Any: a type as annotations have it
    if get_origin(wanted) in (Union, types.UnionType):
        (wanted,) = (each for each in get_args(wanted) if each is not types.NoneType)
    origin, arguments = get_origin(wanted) or wanted, get_args(wanted)
    if origin is bool:
        return {"type": "boolean"}
    if origin is int:
        return count()
    if issubclass(origin, Enum):
        return choice([str(each.value) for each in origin])
    if origin is str:
        return text(most=cel_rules.MOST_TEXT)
    if issubclass(origin, msgspec.Struct):
        needed = tuple(each.encode_name for each in msgspec.structs.fields(origin) if each.required)
        return closed(options(origin), needed)
    if origin is tuple:
        return listing(_option(arguments[0]))
    if origin is dict:
        return opened()
    raise TypeError(f"there is no schema for {wanted}")


# --- Status -----------------------------------------------------------------------------------------------


def status() -> Schema:
    """What the operator writes; `bireme` within it is its memory."""
    time: Schema = {"type": "string", "format": "date-time"}
    condition = closed(
        {
            "lastTransitionTime": time,
            "lastUpdateTime": time,
            "message": text(),
            "reason": text(),
            "status": text(),
            "type": text(),
        },
        required=("type", "status"),
    )
    counts = closed(
        {
            "active": count(),
            "failed": count(),
            "labelSelector": opened(),
            "selector": text(),
            "succeeded": count(),
        }
    )
    return closed(
        {
            "bireme": opened(),
            "completionTime": time,
            "conditions": listing(condition),
            "lastReconcileTime": time,
            "replicaStatuses": mapping(counts),
            "startTime": time,
        }
    )
