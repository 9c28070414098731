"""Defines the custom resources that the operator serves: one for each kind, made from the kind itself.

The three versions of MPIJob share one schema. An API server without a conversion webhook only rewrites
`apiVersion`, so the version that a job was written in is kept in `spec.servedVersion`: each version has its
own default for that field, and a rule keeps it from changing.
"""

from __future__ import annotations

from bireme import kinds
from bireme.kinds.contract import GROUP, CelRule, Kind
from bireme.operator.install import cel_rules, schemas
from bireme.operator.install.schemas import Schema

PART_OF = "app.kubernetes.io/part-of"
OURS = {PART_OF: "bireme"}
"""The label of everything that is installed; by it our own definitions are told from those of others."""

# The kinds of one version have this one, kubectl asks for it before the others, and the Training Operator,
# whose jobs are the likeliest to be there already, stored it too. The choice of a definition that is found is
# kept.
STORAGE = "v1"


def definition_name(kind: str) -> str:
    """What the definition of a kind is called."""
    return f"{kinds.named(kind).plural}.{GROUP}"


def versions(kind: str) -> tuple[str, ...]:
    """The versions that are served, without their group."""
    return tuple(version.rpartition("/")[2] for version in kinds.named(kind).api_versions)


def every(storage: str = STORAGE) -> list[dict[str, object]]:
    """The definitions of all kinds; the storage version concerns those that have several."""
    return [definition(name, storage) for name in kinds.SERVED]


def definition(name: str, storage: str = STORAGE) -> dict[str, object]:
    """The definition of one kind."""
    kind = kinds.named(name)
    served = versions(name)
    stored = storage if storage in served else served[0]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": definition_name(name), "labels": dict(OURS)},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": kind.name.lower(),
            },
            "conversion": {"strategy": "None"},
            "versions": [_version(kind, version, stored=version == stored) for version in sorted(served)],
        },
    }


def _version(kind: Kind, version: str, *, stored: bool) -> dict[str, object]:
    subresources: dict[str, object] = {"status": {}}
    if kind.scalable:
        subresources["scale"] = {
            "specReplicasPath": f".spec.{kind.specs}.Worker.replicas",
            "statusReplicasPath": ".status.replicaStatuses.Worker.active",
            "labelSelectorPath": ".status.replicaStatuses.Worker.selector",
        }
    last = ".status.conditions[-1:]"
    columns: list[dict[str, object]] = [
        {"name": "State", "type": "string", "jsonPath": f"{last}.type"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        _wide("Active", "integer", ".status.replicaStatuses.Worker.active"),
        _wide("Attempt", "integer", ".status.bireme.attempt"),
        _wide("Message", "string", f"{last}.message"),
    ]
    if len(kind.api_versions) > 1:
        columns.insert(2, _wide("Version", "string", ".spec.servedVersion"))
    return {
        "name": version,
        "served": True,
        "storage": stored,
        "subresources": subresources,
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": _job(kind, version)},
    }


def _job(kind: Kind, version: str) -> Schema:
    managers = dict.fromkeys(name for version in kind.api_versions for name in kind.managers(version))
    types = kind.role_types(kind.api_versions[0])
    # One more than there can be, so that a misspelt one is named by its rule and not merely counted.
    roles = schemas.mapping(schemas.role(), len(types) + 1)
    fields = {
        **schemas.options(kind.Options),
        "runPolicy": schemas.run_policy(list(managers)),
        kind.specs: schemas.with_rules(roles, cel_rules.of_roles(kind)),
    }
    fields |= {field: schemas.choice(texts) for field, texts in kind.choices.items()}
    if len(kind.api_versions) > 1:
        kept = CelRule(
            "self == oldSelf",
            "a job keeps the version that it was created with: "
            "to change it, delete the job and create it again",
        )
        served = schemas.choice(
            sorted(versions(kind.name)), "The version that the job was created with; never written by hand."
        )
        fields["servedVersion"] = schemas.with_rules({**served, "default": version}, [kept])
    spec = schemas.closed(dict(sorted(fields.items())), required=(kind.specs,))
    job = schemas.closed(
        {
            "apiVersion": schemas.text(),
            "kind": schemas.text(),
            "metadata": {"type": "object", "properties": {"name": schemas.text(most=cel_rules.MOST_NAME)}},
            "spec": schemas.with_rules(spec, kind.spec_rules),
            "status": schemas.status(),
        },
        required=("spec",),
        description=f"A {kind.name}: one distributed training job.",
    )
    return schemas.with_rules(job, cel_rules.of_job(kind))


def _wide(name: str, type: str, path: str) -> dict[str, object]:
    """A column that only `kubectl get -o wide` shows."""
    return {"name": name, "type": type, "jsonPath": path, "priority": 1}
