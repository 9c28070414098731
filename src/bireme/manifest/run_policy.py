"""Reads the run policy of a manifest, and our own annotations."""

from __future__ import annotations

from msgspec import Struct

from bireme import kinds
from bireme.core.scripts import metric_patterns
from bireme.manifest import name_rules
from bireme.manifest.diagnostics import Fields
from bireme.manifest.text.nodes import quoted
from bireme.model.job import (
    ENVIRONMENT_ANNOTATION,
    EVICTION_LIMIT_ANNOTATION,
    METRICS_ANNOTATION,
    RESTART_ANNOTATION,
    RESUMES_ANNOTATION,
    CleanPods,
    RestartScope,
    RunPolicy,
    Scheduling,
)

ELASTIC_MIN_ANNOTATION = "bireme.io/elastic-min"

_OURS = "bireme.io/"
_ANNOTATIONS = (
    RESTART_ANNOTATION,
    ENVIRONMENT_ANNOTATION,
    EVICTION_LIMIT_ANNOTATION,
    ELASTIC_MIN_ANNOTATION,
    METRICS_ANNOTATION,
    RESUMES_ANNOTATION,
    *(annotation for kind in kinds.KINDS for annotation in kind.annotations),
)


class Wishes(Struct, frozen=True):
    """What our own annotations ask for."""

    unit: RestartScope = RestartScope.REPLICA
    torchrun_environment: bool = False
    eviction_limit: int = RunPolicy().eviction_limit
    resumes: int = 0


def read_run_policy(spec: Fields, managers: tuple[str, ...]) -> RunPolicy:
    """Reads `runPolicy` of a Kubeflow kind."""
    fields = spec.mapping("runPolicy")
    if fields is None:
        return RunPolicy()
    manager = fields.text("managedBy", "")
    if manager and manager not in managers:
        supported = ", ".join(quoted(each) for each in managers)
        fields.error("managedBy", f"Unsupported value: {quoted(manager)}: supported values: {supported}")
    scheduling = Scheduling()
    if (gang := fields.mapping("schedulingPolicy")) is not None:
        scheduling = Scheduling(
            min_available=gang.integer("minAvailable", minimum=0),
            queue=gang.text("queue", ""),
            priority_class=gang.text("priorityClass", ""),
            min_resources=gang.quantities("minResources"),
            timeout=gang.integer("scheduleTimeoutSeconds", minimum=0),
        )
        gang.done()
    policy = RunPolicy(
        clean_pods=CleanPods(fields.choice("cleanPodPolicy", list(CleanPods), CleanPods.NONE)),
        ttl=fields.integer("ttlSecondsAfterFinished", minimum=0),
        deadline=fields.integer("activeDeadlineSeconds", minimum=0),
        backoff_limit=fields.integer("backoffLimit", minimum=0),
        suspend=fields.boolean("suspend", False),
        managed_by=manager,
        scheduling=scheduling,
    )
    fields.done()
    return policy


def read_job_policy(spec: Fields) -> RunPolicy:
    """Reads the same from the `spec` of a batch Job, which has no `runPolicy`."""
    return RunPolicy(
        ttl=spec.integer("ttlSecondsAfterFinished", minimum=0),
        deadline=spec.integer("activeDeadlineSeconds", minimum=0),
        backoff_limit=spec.integer("backoffLimit", minimum=0),
        suspend=spec.boolean("suspend", False),
        managed_by=spec.text("managedBy", ""),
    )


def read_wishes(annotations: Fields | None) -> Wishes:
    """Reads the annotations that begin with `bireme.io/`."""
    if annotations is None:
        return Wishes()
    written = annotations.keys()
    for key in written:
        if key.startswith(_OURS) and key not in _ANNOTATIONS:
            nearest = name_rules.nearest(
                key.removeprefix(_OURS), [each.removeprefix(_OURS) for each in _ANNOTATIONS]
            )
            advice = f", did you mean {quoted(_OURS + nearest)}?" if nearest else ""
            annotations.warn(key, f"unknown annotation {quoted(key)}{advice}")
    for text in metric_patterns.split(annotations.text(METRICS_ANNOTATION, "")):
        if wrong := wrong_pattern(text):
            annotations.error(METRICS_ANNOTATION, wrong)
    return Wishes(
        unit=RestartScope(annotations.choice(RESTART_ANNOTATION, list(RestartScope), RestartScope.REPLICA)),
        torchrun_environment=annotations.choice(ENVIRONMENT_ANNOTATION, ("torchrun",)) is not None,
        eviction_limit=_number(annotations, EVICTION_LIMIT_ANNOTATION, Wishes().eviction_limit),
        resumes=_number(annotations, RESUMES_ANNOTATION, 0),
    )


def wrong_pattern(text: str) -> str:
    """What is wrong with a pattern for numbers of the output; empty if nothing is."""
    try:
        metric_patterns.compiled(text)
    except ValueError as error:
        return (
            f"pattern {quoted(text)}: {error} "
            "(write a name such as loss, or an expression such as (?P<name>loss) = (?P<value>[0-9.]+))"
        )
    return "" if "\n" not in text else f"pattern {quoted(text)}: it has several lines"


def _number(annotations: Fields, name: str, usual: int) -> int:
    text = annotations.text(name)
    if text is None:
        return usual
    if text.isascii() and text.isdecimal() and len(text) <= 9:
        return int(text)
    annotations.error(name, f'wanted a whole number such as "20", found {quoted(text)}')
    return usual
