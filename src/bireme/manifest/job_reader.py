"""How does a document of a known kind become a job: defaults filled in, everything checked."""

from __future__ import annotations

from msgspec import Struct, structs

from bireme.kinds.contract import KindModule
from bireme.manifest import kind_options, known_fields, name_rules, roles, run_policy
from bireme.manifest.problems import Complaints, Fields
from bireme.manifest.run_policy import Wishes
from bireme.manifest.text import field_positions
from bireme.manifest.text.nodes import Node, quoted
from bireme.model.job import ENVIRONMENT_ANNOTATION, Job, Kind, Role, member_name

# Legal fields of a batch Job that change how it ends, and that only a cluster acts on.
_CLUSTER_ONLY = ("backoffLimitPerIndex", "maxFailedIndexes", "podFailurePolicy", "successPolicy")

_MOST_COMPLETIONS = 1_000_000


class Metadata(Struct, frozen=True):
    """What a job is called and carries."""

    name: str = ""
    name_field: str = "name"
    namespace: str = "default"
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    wishes: Wishes = Wishes()


def read(
    root: Node, module: KindModule, complaints: Complaints, file: str, as_version: str = ""
) -> Job | None:
    """Reads a job of one kind; what is wrong with it becomes complaints.

    `as_version` stands for an apiVersion that is missing or not known.
    """
    document = Fields(complaints, file, root)
    api_version = as_version or document.text("apiVersion", "")
    metadata = _metadata(document, module)
    spec = document.mapping("spec")
    document.done(known_fields.TOP)
    if spec is None:
        if document.node("spec") is None:
            document.error("spec", f"is missing: it holds {module.SPECS or 'the template'}")
        return None
    found = roles.read(spec, module, api_version)
    policy = (
        run_policy.read_run_policy(spec, api_version) if module.SPECS else run_policy.read_job_policy(spec)
    )
    own = kind_options.read(spec, module.Options)
    _finish_spec(spec, module)
    job = Job(
        kind=module.KIND,
        api_version=api_version,
        name=metadata.name,
        roles=found.roles,
        namespace=metadata.namespace,
        policy=structs.replace(
            policy, eviction_limit=metadata.wishes.eviction_limit, resumes=metadata.wishes.resumes
        ),
        unit=metadata.wishes.unit,
        torchrun_environment=metadata.wishes.torchrun_environment,
        options=own,
        labels=metadata.labels,
        annotations=metadata.annotations,
    )
    job = module.defaults(job)
    if found.complete:
        # Where a role is missing or misspelt, the kind would only complain about what follows from it.
        for problem in module.validate(job):
            mark = field_positions.locate(root, problem.field)
            complaints.error(mark, problem.field, problem.text, problem.hint, file=file)
    _check_replicas(document, job, metadata)
    return job


def _metadata(document: Fields, module: KindModule) -> Metadata:
    fields = document.mapping("metadata")
    if fields is None:
        if document.node("metadata") is None:
            document.error("metadata", "is missing: the job needs a name", "write `metadata: {name: my-job}`")
        return Metadata()
    name, name_field = _name(fields, module)
    namespace = fields.text("namespace", "default") or "default"
    if wrong := name_rules.wrong_label(namespace):
        fields.error("namespace", f"Invalid value: {quoted(namespace)}: {wrong}")
    metadata = Metadata(
        name,
        name_field,
        namespace,
        fields.text_map("labels"),
        fields.text_map("annotations"),
        _wishes(fields, module),
    )
    fields.done(known_fields.METADATA)
    return metadata


def _name(fields: Fields, module: KindModule) -> tuple[str, str]:
    """Returns the name, and the field that gave it; a generated name is left without its random end."""
    name, field = fields.text("name", ""), "name"
    if not name and (prefix := fields.text("generateName", "")):
        name, field = prefix.rstrip("-"), "generateName"
    if not name:
        node = fields.node("name")
        if node is None or node.value == "":
            fields.error("name", "is missing: name or generateName is required")
        return "", "name"
    # Only a batch Job may begin with a digit or hold dots: nothing has to find its pods by name.
    wrong = (
        name_rules.wrong_subdomain(name) if module.KIND is Kind.BATCH else name_rules.wrong_label_1035(name)
    )
    if wrong:
        suggestion = name_rules.label_of(name)[: name_rules.MOST_CHARACTERS]
        hint = f"such as {suggestion}" if suggestion and suggestion != name else ""
        fields.error(field, f"Invalid value: {quoted(name)}: should match: {wrong}", hint)
        return "", field
    return name, field


def _wishes(metadata: Fields, module: KindModule) -> Wishes:
    annotations = metadata.mapping("annotations")
    wishes = run_policy.read_wishes(annotations)
    if annotations is not None and wishes.torchrun_environment and module.KIND is not Kind.PYTORCH:
        text = f"only a PyTorchJob has the environment of torchrun, not a {module.KIND}"
        annotations.warn(ENVIRONMENT_ANNOTATION, text)
    return wishes


def _finish_spec(spec: Fields, module: KindModule) -> None:
    if module.SPECS:
        spec.done()
        return
    for field in _CLUSTER_ONLY:
        if spec.node(field) is not None:
            spec.warn(field, "only a cluster acts on this")
    spec.done(known_fields.JOB_SPEC)


def _check_replicas(document: Fields, job: Job, metadata: Metadata) -> None:
    """Refuses a job that has too many replicas, or whose longest name no pod could have."""
    fields = document.mapping("metadata")
    spec = document.mapping("spec")
    most = _MOST_COMPLETIONS if job.kind is Kind.BATCH else roles.MOST_REPLICAS
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
    return member_name(job, role, role.replicas - 1)
