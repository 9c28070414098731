"""What does an API server refuse, and with which sentence: rules in CEL, the language of custom resources.

They say what `bireme check` says. A rule sees only fields that the schema declares, and its estimated cost is
limited: that is why lists and texts in the schema have bounds.
"""

from __future__ import annotations

from msgspec import Struct

from bireme.kinds.contract import KindModule
from bireme.manifest import name_rules, roles
from bireme.model.job import Kind, Naming

MOST_NAME = name_rules.MOST_CHARACTERS
MOST_TEXT = 1000

LABEL_1123 = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_LABEL_1035 = "^[a-z]([-a-z0-9]*[a-z0-9])?$"

# The sentences of `bireme check`, asked for with a name that breaks nothing but the rule itself.
SENTENCE_1123 = name_rules.wrong_label("-")
_SENTENCE_1035 = name_rules.wrong_label_1035("-")


class CelRule(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One entry of `x-kubernetes-validations`."""

    rule: str
    message: str = ""
    message_expression: str = ""
    reason: str = ""
    field_path: str = ""


FORBIDDEN = "FieldValueForbidden"
REQUIRED = "FieldValueRequired"


# --- A whole job, from its root ---------------------------------------------------------------------------


def of_job(module: KindModule) -> list[CelRule]:
    """The rules that look at a job's name."""
    specs = f"self.spec.{module.SPECS}"
    shown = f"self.metadata.name + '-' + {specs}.filter(type, !({_fits(module)}))[0].lowerAscii()"
    return [
        CelRule(
            f"self.metadata.name.matches('{_LABEL_1035}')",
            f"should match: {_SENTENCE_1035}",
            field_path=".metadata.name",
        ),
        CelRule(
            f"{specs}.all(type, {_fits(module)})",
            f"the name of a pod must be no more than {MOST_NAME} characters: shorten the name of the job",
            f"'the name of a pod, which begins with ' + {shown} + ', must be no more than "
            f"{MOST_NAME} characters'",
            field_path=".metadata.name",
        ),
    ]


def _fits(module: KindModule) -> str:
    """Whether the longest name among the pods of one role is short enough."""
    types = module.role_types(module.API_VERSIONS[0])
    alone = [type_.key.lower() for type_ in types if type_.naming is Naming.ROLE]
    replicas = _replicas(module, f"self.spec.{module.SPECS}[type]")
    numbered = f"size(self.metadata.name) + size(type) + 2 + size(string({replicas} - 1)) <= {MOST_NAME}"
    fits = f"{replicas} < 1 || {numbered}"
    if not alone:
        return fits
    bare = f"size(self.metadata.name) + size(type) + 1 <= {MOST_NAME}"
    return f"type.lowerAscii() in {_list(alone)} ? {bare} : ({fits})"


def _replicas(module: KindModule, role: str) -> str:
    """How many replicas of a `type` there are, given its spec."""
    types = module.role_types(module.API_VERSIONS[0])
    none = [type_.key.lower() for type_ in types if type_.replicas == 0]
    usual = f"(type.lowerAscii() in {_list(none)} ? 0 : 1)" if none else "1"
    return f"(has({role}.replicas) ? {role}.replicas : {usual})"


# --- The replica types ------------------------------------------------------------------------------------


def of_roles(module: KindModule) -> list[CelRule]:
    """The rules for the mapping of replica types to their specs, whatever the case of its keys."""
    types = [type_.key for type_ in module.role_types(module.API_VERSIONS[0])]
    small = _list([key.lower() for key in types])
    supported = ", ".join(f'"{key}"' for key in types)
    unknown = f"self.filter(type, !(type.lowerAscii() in {small}))[0]"
    total = f"self.map(type, {_replicas(module, 'self[type]')}).sum()"
    return [
        CelRule(
            "size(self) > 0",
            f"at least one of {supported} is needed",
            reason=REQUIRED,
        ),
        CelRule(
            f"self.all(type, type.lowerAscii() in {small})",
            f"an unknown replica type: supported values: {supported}",
            f"'Unsupported value: \"' + {unknown} + '\": supported values: {supported}'",
        ),
        CelRule(
            "self.all(type, self.all(other, type == other || type.lowerAscii() != other.lowerAscii()))",
            "a replica type must not be there twice in different case",
        ),
        CelRule(
            # Their number is not told: making a text of it is estimated as too expensive.
            f"{total} <= {roles.MOST_REPLICAS}",
            f"the job has too many replicas; at most {roles.MOST_REPLICAS} are supported in all roles",
        ),
        *_ROLE_RULES.get(module.KIND, []),
    ]


def _only_one(*types: str) -> CelRule:
    named = _list([type_.lower() for type_ in types])
    shown = " and ".join(f"{type_}.replicas" for type_ in types)
    return CelRule(
        f"self.all(type, !(type.lowerAscii() in {named}) || !has(self[type].replicas) "
        "|| self[type].replicas == 1)",
        f"{shown} must be 1",
        reason=FORBIDDEN,
    )


def _list(texts: list[str]) -> str:
    return "[" + ", ".join(f"'{text}'" for text in texts) + "]"


_ROLE_RULES: dict[Kind, list[CelRule]] = {
    Kind.TENSORFLOW: [
        CelRule(
            "self.filter(type, type.lowerAscii() in ['chief', 'master']).size() <= 1",
            "must not have more than 1 Chief or Master role",
            reason=FORBIDDEN,
        ),
        _only_one("Chief", "Master"),
    ],
    Kind.PYTORCH: [
        _only_one("Master"),
        CelRule(
            "self.all(type, type.lowerAscii() != 'worker' || !has(self[type].replicas) "
            "|| self[type].replicas >= 1)",
            "Worker.replicas must be at least 1",
            reason=FORBIDDEN,
        ),
    ],
    Kind.XGBOOST: [
        CelRule(
            "self.exists(type, type.lowerAscii() == 'master')",
            "Master must be present: it serves the tracker, and its end is the job's",
            reason=REQUIRED,
        ),
        _only_one("Master"),
    ],
    Kind.MPI: [
        CelRule(
            "self.exists(type, type.lowerAscii() == 'launcher')",
            "Launcher must be present: its command is the one that calls mpirun",
            reason=REQUIRED,
        ),
        _only_one("Launcher"),
    ],
}


# --- What concerns several fields of a spec ---------------------------------------------------------------


def of_spec(module: KindModule) -> list[CelRule]:
    """The rules of one kind that look at more than one field of its spec."""
    return _SPEC_RULES.get(module.KIND, [])


_WORKER = "type.lowerAscii() == 'worker'"
_SPEC_RULES: dict[Kind, list[CelRule]] = {
    Kind.PYTORCH: [
        CelRule(
            f"!has(self.elasticPolicy) || self.pytorchReplicaSpecs.exists(type, {_WORKER})",
            "Worker must be configured if elastic policy is used",
            reason=REQUIRED,
            field_path=".pytorchReplicaSpecs",
        ),
        CelRule(
            "!has(self.elasticPolicy) || !has(self.elasticPolicy.nProcPerNode) || !has(self.nprocPerNode)",
            "must not be used with spec.nprocPerNode",
            reason=FORBIDDEN,
            field_path=".elasticPolicy.nProcPerNode",
        ),
    ],
    Kind.MPI: [
        CelRule(
            f"self.servedVersion == 'v1' || self.mpiReplicaSpecs.all(type, !({_WORKER}) "
            "|| (has(self.mpiReplicaSpecs[type].replicas) && self.mpiReplicaSpecs[type].replicas >= 1))",
            "Worker.replicas must be greater than or equal to 1",
            field_path=".mpiReplicaSpecs",
        ),
        CelRule(
            "self.servedVersion != 'v2beta1' || self.mpiReplicaSpecs.all(type, "
            "!has(self.mpiReplicaSpecs[type].restartPolicy) "
            "|| self.mpiReplicaSpecs[type].restartPolicy in ['Never', 'OnFailure'])",
            'restartPolicy is "Never" or "OnFailure" in kubeflow.org/v2beta1',
            field_path=".mpiReplicaSpecs",
        ),
        CelRule(
            "self.servedVersion != 'v1alpha2' || !has(self.slotsPerWorker) || self.slotsPerWorker >= 1",
            "must be greater than or equal to 1",
            field_path=".slotsPerWorker",
        ),
        CelRule(
            f"!has(self.mainContainer) || size(self.mainContainer) == 0 || self.mpiReplicaSpecs.all(type, "
            f"!({_WORKER}) || self.mpiReplicaSpecs[type].template.spec.containers.exists(one, "
            "one.name == self.mainContainer))",
            "no container of the Worker has this name",
            field_path=".mainContainer",
        ),
        CelRule(
            "!has(self.runPolicy) || !has(self.runPolicy.managedBy) || self.runPolicy.managedBy != "
            "(self.servedVersion == 'v2beta1' "
            "? 'kubeflow.org/training-operator' : 'kubeflow.org/mpi-operator')",
            'the operator is "kubeflow.org/mpi-operator" in v2beta1, else "kubeflow.org/training-operator"',
            field_path=".runPolicy.managedBy",
        ),
    ],
}
