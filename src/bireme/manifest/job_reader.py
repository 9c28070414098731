"""How does a document of a known kind become a job: defaults filled in, everything checked."""

from __future__ import annotations

import msgspec
from msgspec import Struct, structs

from bireme import kinds
from bireme.kinds.contract import Kind
from bireme.manifest import kind_options, known_fields, name_rules, roles, run_policy
from bireme.manifest.diagnostics import Diagnostics, Fields
from bireme.manifest.run_policy import Wishes
from bireme.manifest.text import field_positions
from bireme.manifest.text.nodes import Node, quoted
from bireme.model.job import ENVIRONMENT_ANNOTATION, Job, Role, replica_name


class Metadata(Struct, frozen=True):
    """What a job is called and carries."""

    name: str = ""
    name_field: str = "name"
    namespace: str = "default"
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    wishes: Wishes = Wishes()


def read(root: Node, kind: Kind, diagnostics: Diagnostics, file: str, as_version: str = "") -> Job | None:
    """Reads a job of one kind; what is wrong with it becomes diagnostics.

    `as_version` stands for an apiVersion that is missing or not known.
    """
    document = Fields(diagnostics, file, root)
    api_version = as_version or document.text("apiVersion", "")
    metadata = _metadata(document, kind)
    spec = document.mapping("spec")
    document.done(known_fields.TOP)
    if spec is None:
        if document.node("spec") is None:
            document.error("spec", f"is missing: it holds {kind.specs or 'the template'}")
        return None
    found = roles.read(spec, kind, api_version)
    policy = (
        run_policy.read_run_policy(spec, kind.managers(api_version))
        if kind.specs
        else run_policy.read_job_policy(spec)
    )
    own = kind_options.read(spec, kind.Options)
    _finish_spec(spec, kind)
    job = Job(
        kind=kind.name,
        api_version=api_version,
        name=metadata.name,
        roles=found.roles,
        namespace=metadata.namespace,
        policy=structs.replace(
            policy, eviction_limit=metadata.wishes.eviction_limit, resumes=metadata.wishes.resumes
        ),
        unit=metadata.wishes.unit,
        torchrun_environment=metadata.wishes.torchrun_environment,
        options=msgspec.convert(own, kind.Options),
        labels=metadata.labels,
        annotations=metadata.annotations,
    )
    job = kind.defaults(job)
    if found.complete:
        # Where a role is missing or misspelt, the kind would only report what follows from it.
        for problem in kind.validate(job):
            mark = field_positions.locate(root, problem.field)
            diagnostics.error(mark, problem.field, problem.text, problem.hint, file=file)
    _check_replicas(document, job, metadata, kind.most_replicas)
    return job


def _metadata(document: Fields, kind: Kind) -> Metadata:
    fields = document.mapping("metadata")
    if fields is None:
        if document.node("metadata") is None:
            document.error("metadata", "is missing: the job needs a name", "write `metadata: {name: my-job}`")
        return Metadata()
    name, name_field = _name(fields, kind)
    namespace = fields.text("namespace", "default") or "default"
    if wrong := name_rules.wrong_label(namespace):
        fields.error("namespace", f"Invalid value: {quoted(namespace)}: {wrong}")
    metadata = Metadata(
        name,
        name_field,
        namespace,
        fields.text_map("labels"),
        fields.text_map("annotations"),
        _wishes(fields, kind),
    )
    fields.done(known_fields.METADATA)
    return metadata


def _name(fields: Fields, kind: Kind) -> tuple[str, str]:
    """Returns the name, and the field that gave it; a generated name is left without its random end."""
    name, field = fields.text("name", ""), "name"
    if not name and (prefix := fields.text("generateName", "")):
        name, field = prefix.rstrip("-"), "generateName"
    if not name:
        node = fields.node("name")
        if node is None or node.value == "":
            fields.error("name", "is missing: name or generateName is required")
        return "", "name"
    check = name_rules.wrong_subdomain if kind.subdomain_names else name_rules.wrong_label_1035
    wrong = check(name)
    if wrong:
        suggestion = name_rules.label_of(name)[: name_rules.MOST_CHARACTERS]
        hint = f"such as {suggestion}" if suggestion and suggestion != name else ""
        fields.error(field, f"Invalid value: {quoted(name)}: should match: {wrong}", hint)
        return "", field
    return name, field


def _wishes(metadata: Fields, kind: Kind) -> Wishes:
    annotations = metadata.mapping("annotations")
    wishes = run_policy.read_wishes(annotations)
    if annotations is not None and wishes.torchrun_environment and not kind.torchrun:
        able = " or ".join(each.name for each in kinds.KINDS if each.torchrun)
        text = f"only a {able} has the environment of torchrun, not a {kind.name}"
        annotations.warn(ENVIRONMENT_ANNOTATION, text)
    return wishes


def _finish_spec(spec: Fields, kind: Kind) -> None:
    if kind.specs:
        spec.done()
        return
    for field in kind.cluster_only:
        if spec.node(field) is not None:
            spec.warn(field, "only a cluster acts on this")
    spec.done(known_fields.JOB_SPEC)


def _check_replicas(document: Fields, job: Job, metadata: Metadata, most: int) -> None:
    """Refuses a job that has too many replicas, or whose longest name no pod could have."""
    fields = document.mapping("metadata")
    spec = document.mapping("spec")
    if spec is not None and job.total > most:
        text = f"the job has {job.total} replicas; at most {most} are supported"
        spec.error("", text, "make it several jobs")
    if fields is None or not job.name:
        return
    longest = max((_longest(job, role) for role in job.roles if role.replicas > 0), key=len, default="")
    excess = len(longest) - name_rules.MOST_CHARACTERS
    if excess > 0:
        fields.error(
            metadata.name_field,
            f"Invalid value: {quoted(job.name)}: the pod name {longest} would be invalid: it has "
            f"{len(longest)} characters and must be no more than {name_rules.MOST_CHARACTERS} characters",
            f"shorten it by {excess}",
        )


def _longest(job: Job, role: Role) -> str:
    return replica_name(job, role, role.replicas - 1)
