"""Which custom resources does the operator serve: one definition for each kind, made from the kind itself.

The three versions of MPIJob share one schema. An API server without a conversion webhook only rewrites
`apiVersion`, so the version that a job was written in is kept in `spec.servedVersion`: each version has its
own default for that field, and a rule keeps it from changing.
"""

from __future__ import annotations

from bireme import kinds
from bireme.kinds.contract import KindModule
from bireme.model.job import Kind
from bireme.operator.install import cel_rules, schemas
from bireme.operator.install.cel_rules import CelRule
from bireme.operator.install.schemas import Schema

GROUP = "kubeflow.org"
PART_OF = "app.kubernetes.io/part-of"
OURS = {PART_OF: "bireme"}
"""The label of everything that is installed; by it our own definitions are told from those of others."""

KINDS = (Kind.TENSORFLOW, Kind.PYTORCH, Kind.MPI, Kind.XGBOOST, Kind.PADDLE, Kind.JAX)

# The five others are stored as v1, kubectl asks for it before the other two, and the Training Operator, whose
# jobs are the likeliest to be there already, stored it too. Where a definition is found, its choice is kept.
STORAGE = "v1"

_SCALABLE = (Kind.PYTORCH, Kind.PADDLE, Kind.JAX)
_SUCCESS_POLICIES = ["", "Default", "AllWorkers"]
_MULTIKUEUE = "kueue.x-k8s.io/multikueue"
_TRAINING_OPERATOR = "kubeflow.org/training-operator"
_MPI_OPERATOR = "kubeflow.org/mpi-operator"


def plural(kind: Kind) -> str:
    return f"{kind.lower()}s"


def name(kind: Kind) -> str:
    """What the definition of a kind is called."""
    return f"{plural(kind)}.{GROUP}"


def versions(kind: Kind) -> tuple[str, ...]:
    """The versions that are served, without their group."""
    return tuple(one.rpartition("/")[2] for one in kinds.module(kind).API_VERSIONS)


def every(storage: str = STORAGE) -> list[dict[str, object]]:
    """The definitions of all kinds; the storage version concerns those that have several."""
    return [definition(kind, storage) for kind in KINDS]


def definition(kind: Kind, storage: str = STORAGE) -> dict[str, object]:
    """The definition of one kind."""
    served = versions(kind)
    stored = storage if storage in served else served[0]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name(kind), "labels": dict(OURS)},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": str(kind),
                "listKind": f"{kind}List",
                "plural": plural(kind),
                "singular": kind.lower(),
            },
            "conversion": {"strategy": "None"},
            "versions": [_version(kinds.module(kind), one, stored=one == stored) for one in sorted(served)],
        },
    }


def _version(module: KindModule, version: str, *, stored: bool) -> dict[str, object]:
    return {
        "name": version,
        "served": True,
        "storage": stored,
        "subresources": _subresources(module),
        "additionalPrinterColumns": _columns(module),
        "schema": {"openAPIV3Schema": _job(module, version)},
    }


def _job(module: KindModule, version: str) -> Schema:
    job = schemas.closed(
        {
            "apiVersion": schemas.text(),
            "kind": schemas.text(),
            "metadata": {"type": "object", "properties": {"name": schemas.text(most=cel_rules.MOST_NAME)}},
            "spec": _spec(module, version),
            "status": schemas.status(),
        },
        required=("spec",),
        description=f"A {module.KIND}: one distributed training job.",
    )
    return schemas.with_rules(job, cel_rules.of_job(module))


def _spec(module: KindModule, version: str) -> Schema:
    managers = [_TRAINING_OPERATOR, _MULTIKUEUE]
    types = module.role_types(module.API_VERSIONS[0])
    # One more than there can be, so that a misspelt one is named by its rule and not merely counted.
    roles = schemas.mapping(schemas.role(), len(types) + 1)
    fields = {
        **schemas.options(module.Options),
        "runPolicy": schemas.run_policy(managers),
        module.SPECS: schemas.with_rules(roles, cel_rules.of_roles(module)),
    }
    match module.KIND:
        case Kind.TENSORFLOW:
            fields["successPolicy"] = schemas.choice(_SUCCESS_POLICIES)
        case Kind.MPI:
            fields["runPolicy"] = schemas.run_policy([_MPI_OPERATOR, *managers])
            fields["servedVersion"] = _served_version(versions(module.KIND), version)
    spec = schemas.closed(dict(sorted(fields.items())), required=(module.SPECS,))
    return schemas.with_rules(spec, cel_rules.of_spec(module))


def _served_version(served: tuple[str, ...], version: str) -> Schema:
    kept = CelRule(
        "self == oldSelf",
        "a job keeps the version that it was created with: to change it, delete the job and create it again",
    )
    field = schemas.choice(
        sorted(served), "The version that the job was created with; never written by hand."
    )
    return schemas.with_rules({**field, "default": version}, [kept])


def _subresources(module: KindModule) -> dict[str, object]:
    found: dict[str, object] = {"status": {}}
    if module.KIND in _SCALABLE:
        found["scale"] = {
            "specReplicasPath": f".spec.{module.SPECS}.Worker.replicas",
            "statusReplicasPath": ".status.replicaStatuses.Worker.active",
            "labelSelectorPath": ".status.replicaStatuses.Worker.selector",
        }
    return found


def _columns(module: KindModule) -> list[dict[str, object]]:
    last = ".status.conditions[-1:]"
    columns: list[dict[str, object]] = [
        {"name": "State", "type": "string", "jsonPath": f"{last}.type"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        _wide("Active", "integer", ".status.replicaStatuses.Worker.active"),
        _wide("Attempt", "integer", ".status.bireme.attempt"),
        _wide("Message", "string", f"{last}.message"),
    ]
    if module.KIND is Kind.MPI:
        columns.insert(2, _wide("Version", "string", ".spec.servedVersion"))
    return columns


def _wide(name: str, type: str, path: str) -> dict[str, object]:
    """A column that only `kubectl get -o wide` shows."""
    return {"name": name, "type": type, "jsonPath": path, "priority": 1}
