"""Makes the rules by which an API server refuses a job, in CEL, the language of custom resources.

They say what `bireme check` says. A rule sees only fields that the schema declares, and its estimated cost is
limited: that is why lists and texts in the schema have bounds.
"""

from __future__ import annotations

from bireme.kinds.contract import MOST_REPLICAS, REQUIRED, CelRule, Kind, cel_list
from bireme.manifest import name_rules
from bireme.model.job import Naming

MOST_NAME = name_rules.MOST_CHARACTERS
MOST_TEXT = 1000

LABEL_1123 = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_LABEL_1035 = "^[a-z]([-a-z0-9]*[a-z0-9])?$"

# The sentences of `bireme check`, asked for with a name that breaks nothing but the rule itself.
SENTENCE_1123 = name_rules.wrong_label("-")
_SENTENCE_1035 = name_rules.wrong_label_1035("-")


# --- A whole job, from its root ---------------------------------------------------------------------------


def of_job(kind: Kind) -> list[CelRule]:
    """The rules that look at a job's name."""
    specs = f"self.spec.{kind.specs}"
    shown = f"self.metadata.name + '-' + {specs}.filter(type, !({_fits(kind)}))[0].lowerAscii()"
    return [
        CelRule(
            f"self.metadata.name.matches('{_LABEL_1035}')",
            f"should match: {_SENTENCE_1035}",
            field_path=".metadata.name",
        ),
        CelRule(
            f"{specs}.all(type, {_fits(kind)})",
            f"the name of a pod must be no more than {MOST_NAME} characters: shorten the name of the job",
            f"'the name of a pod, which begins with ' + {shown} + ', must be no more than "
            f"{MOST_NAME} characters'",
            field_path=".metadata.name",
        ),
    ]


def _fits(kind: Kind) -> str:
    """Whether the longest name among the pods of one role is short enough."""
    types = kind.role_types(kind.api_versions[0])
    alone = [type_.key.lower() for type_ in types if type_.naming is Naming.ROLE]
    replicas = _replicas(kind, f"self.spec.{kind.specs}[type]")
    numbered = f"size(self.metadata.name) + size(type) + 2 + size(string({replicas} - 1)) <= {MOST_NAME}"
    fits = f"{replicas} < 1 || {numbered}"
    if not alone:
        return fits
    bare = f"size(self.metadata.name) + size(type) + 1 <= {MOST_NAME}"
    return f"type.lowerAscii() in {cel_list(alone)} ? {bare} : ({fits})"


def _replicas(kind: Kind, role: str) -> str:
    """How many replicas of a `type` there are, given its spec."""
    types = kind.role_types(kind.api_versions[0])
    none = [type_.key.lower() for type_ in types if type_.replicas == 0]
    usual = f"(type.lowerAscii() in {cel_list(none)} ? 0 : 1)" if none else "1"
    return f"(has({role}.replicas) ? {role}.replicas : {usual})"


# --- The replica types ------------------------------------------------------------------------------------


def of_roles(kind: Kind) -> list[CelRule]:
    """The rules for the mapping of replica types to their specs, whatever the case of its keys."""
    types = [type_.key for type_ in kind.role_types(kind.api_versions[0])]
    small = cel_list([key.lower() for key in types])
    supported = ", ".join(f'"{key}"' for key in types)
    unknown = f"self.filter(type, !(type.lowerAscii() in {small}))[0]"
    total = f"self.map(type, {_replicas(kind, 'self[type]')}).sum()"
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
            f"{total} <= {MOST_REPLICAS}",
            f"the job has too many replicas; at most {MOST_REPLICAS} are supported in all roles",
        ),
        *kind.role_rules,
    ]
