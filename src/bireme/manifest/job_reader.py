"""Reads a document of a known kind into a job: defaults filled in, everything checked."""

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
from bireme.model.job import ENVIRONMENT_ANNOTATION, Job, replica_name


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
    if kind.specs:
        policy = run_policy.read_run_policy(spec, kind.managers(api_version))
    else:
        policy = run_policy.read_job_policy(spec)
    wishes = metadata.wishes
    own = kind_options.read(spec, kind.Options)
    for field in kind.cluster_only:
        if spec.node(field) is not None:
            spec.warn(field, "only a cluster acts on this")
    spec.done(() if kind.specs else known_fields.JOB_SPEC)
    job = Job(
        kind=kind.name,
        api_version=api_version,
        name=metadata.name,
        roles=found.roles,
        namespace=metadata.namespace,
        policy=structs.replace(policy, eviction_limit=wishes.eviction_limit, resumes=wishes.resumes),
        unit=wishes.unit,
        torchrun_environment=wishes.torchrun_environment,
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
    # A generated name is used here without its random end.
    name, field = fields.text("name", ""), "name"
    if not name and (prefix := fields.text("generateName", "")):
        name, field = prefix.rstrip("-"), "generateName"
    check = name_rules.wrong_subdomain if kind.subdomain_names else name_rules.wrong_label_1035
    if not name:
        field = "name"
        node = fields.node("name")
        if node is None or node.value == "":
            fields.error("name", "is missing: name or generateName is required")
    elif wrong := check(name):
        suggestion = name_rules.label_of(name)[: name_rules.MOST_CHARACTERS]
        hint = f"such as {suggestion}" if suggestion and suggestion != name else ""
        fields.error(field, f"Invalid value: {quoted(name)}: should match: {wrong}", hint)
        name = ""
    namespace = fields.text("namespace", "default") or "default"
    if wrong := name_rules.wrong_label(namespace):
        fields.error("namespace", f"Invalid value: {quoted(namespace)}: {wrong}")
    annotations = fields.mapping("annotations")
    wishes = run_policy.read_wishes(annotations)
    if annotations is not None and wishes.torchrun_environment and not kind.torchrun:
        able = " or ".join(each.name for each in kinds.KINDS if each.torchrun)
        text = f"only a {able} has the environment of torchrun, not a {kind.name}"
        annotations.warn(ENVIRONMENT_ANNOTATION, text)
    labels, written = fields.text_map("labels"), fields.text_map("annotations")
    fields.done(known_fields.METADATA)
    return Metadata(name, field, namespace, labels, written, wishes)


def _check_replicas(document: Fields, job: Job, metadata: Metadata, most: int) -> None:
    """Refuses a job that has too many replicas, or whose longest name no pod could have."""
    fields = document.mapping("metadata")
    spec = document.mapping("spec")
    if spec is not None and job.total > most:
        text = f"the job has {job.total} replicas; at most {most} are supported"
        spec.error("", text, "make it several jobs")
    if fields is None or not job.name:
        return
    last = (replica_name(job, role, role.replicas - 1) for role in job.roles if role.replicas > 0)
    longest = max(last, key=len, default="")
    excess = len(longest) - name_rules.MOST_CHARACTERS
    if excess > 0:
        fields.error(
            metadata.name_field,
            f"Invalid value: {quoted(job.name)}: the pod name {longest} would be invalid: it has "
            f"{len(longest)} characters and must be no more than {name_rules.MOST_CHARACTERS} characters",
            f"shorten it by {excess}",
        )
