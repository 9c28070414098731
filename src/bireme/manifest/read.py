"""Reads the jobs that documents describe: every kind, the short form, and what stands beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from bireme import kinds
from bireme.core.scripts import interpreters
from bireme.core.scripts.interpreters import Launch
from bireme.errors import BadManifest
from bireme.kinds.contract import Kind
from bireme.manifest import conversions, job_reader, name_rules, references, short_form
from bireme.manifest.diagnostics import Diagnostic, Diagnostics, Fields
from bireme.manifest.references import References
from bireme.manifest.text import field_positions
from bireme.manifest.text.nodes import Document, Mark, Node, quoted
from bireme.model.job import Job

__all__ = ["ReadJob", "Reading", "References", "from_manifest", "read"]

KINDS = tuple(kinds.BY_NAME)

IGNORED = (
    "APIService",
    "ClusterQueue",
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterTrainingRuntime",
    "CronJob",
    "CustomResourceDefinition",
    "DaemonSet",
    "Deployment",
    "Endpoints",
    "EndpointSlice",
    "Event",
    "HorizontalPodAutoscaler",
    "Ingress",
    "Lease",
    "LimitRange",
    "LocalQueue",
    "Namespace",
    "NetworkPolicy",
    "Node",
    "PersistentVolume",
    "PodDisruptionBudget",
    "PodGroup",
    "PodTemplate",
    "PriorityClass",
    "ReplicaSet",
    "ReplicationController",
    "ResourceFlavor",
    "ResourceQuota",
    "Role",
    "RoleBinding",
    "RuntimeClass",
    "Service",
    "ServiceAccount",
    "StatefulSet",
    "StorageClass",
    "TrainingRuntime",
)
"""Kinds that often stand beside a job and are none."""


class ReadJob(Struct, frozen=True):
    """A job, and the manifest it was made of."""

    job: Job
    manifest: dict[str, Any]  # Any: JSON has no better type
    """As it was written; of the short form, the manifest that it compiles to."""
    file: str
    line: int
    script: str | None = None
    """The script's path as the short form gives it; whether it exists has not been looked at."""
    module: str | None = None
    """What `python -m` takes, where the short form names a module."""


class Reading(Struct, frozen=True):
    """Everything that documents hold."""

    jobs: tuple[ReadJob, ...]
    references: References = References()
    warnings: tuple[Diagnostic, ...] = ()


Looks = Callable[[str, str], Launch]
"""Finds out what runs a script, from the file that names it and the path that it gives."""


def by_name(file: str, script: str) -> Launch:
    """Looks at the script's name alone."""
    return interpreters.by_name(script)


def read(
    documents: Sequence[Document], looks: Looks = by_name, diagnostics: Diagnostics | None = None
) -> Reading:
    """Reads jobs and what they refer to, or raises one BadManifest that carries every diagnostic.

    `diagnostics` are those about files of which there are no documents.
    """
    reader = _Reader(looks, diagnostics)
    for document in documents:
        reader.add(document)
    return reader.finish()


def from_manifest(
    manifest: Mapping[str, object], *, file: str = "<manifest>", script: str | None = None
) -> Reading:
    """Reads a manifest that is plain data already, such as the one of a script."""
    reader = _Reader(by_name)
    reader.add(field_positions.document_of(manifest, file, Mark(0, 0)), script)
    return reader.finish()


class _Reader:
    def __init__(self, looks: Looks, diagnostics: Diagnostics | None = None) -> None:
        self._looks = looks
        self._diagnostics = diagnostics or Diagnostics()
        self._jobs: list[ReadJob] = []
        self._references = references.Gathered()
        self._seen: list[str] = []
        self._names: set[tuple[str, str, str]] = set()
        self._pods: list[tuple[Fields, Node]] = []
        self._files: dict[str, None] = {}
        self._instead = ""

    def add(self, document: Document, script: str | None = None) -> None:
        self._files[document.file] = None
        roots = [document.root]
        # `kubectl get -o yaml` writes several objects as a `List`.
        fields = document.root.value if isinstance(document.root.value, dict) else {}
        kind, items = fields.get("kind"), fields.get("items")
        if kind is not None and kind.value == "List" and items is not None and isinstance(items.value, list):
            roots = items.value
        for root in roots:
            self._add(Fields(self._diagnostics, document.file, root), root, script)

    def finish(self) -> Reading:
        # Bare Pods are jobs where there is no other; beside a job they are something else.
        alone = not self._jobs and not self._diagnostics.errors
        for fields, root in self._pods:
            if not alone:
                fields.warn("kind", "a Pod is not a job, so it is left alone")
                continue
            fields.warn("kind", "a Pod is run as a batch/v1 Job that has it as its template")
            job = conversions.job_of_pod(root)
            read = job_reader.read(job, kinds.OF_PODS, self._diagnostics, fields.file)
            self._add_job(read, fields, job, None)
        if self._diagnostics.errors:
            warnings = [each for each in self._diagnostics.warnings if not each.is_slip]
            raise BadManifest.of(self._diagnostics.refusing, hint=self._instead, warnings=warnings)
        if not self._jobs:
            found = list(dict.fromkeys(self._seen))[:5]
            text = f"there is no job in it, only: {', '.join(found)}" if found else "there is no job in it"
            hint = f"a job is one of {', '.join(KINDS)}"
            raise BadManifest.of([Diagnostic(", ".join(self._files), 0, 0, "", text, hint)])
        return Reading(tuple(self._jobs), self._references.references(), self._diagnostics.warnings)

    def _add(self, fields: Fields, root: Node, script: str | None) -> None:
        if not isinstance(root.value, dict):
            return
        if fields.node("apiVersion") is None and "script" in root.value:
            self._add_short_form(fields, root)
            return
        kind = self._kind(fields)
        if kind in references.KINDS:
            self._references.add(kind, fields)
        elif kind == conversions.TRAINJOB:
            instead = f"write this PyTorchJob instead:\n{conversions.pytorchjob_of(root)}"
            self._instead = self._instead or instead
            fields.error(
                "kind", "a TrainJob of Trainer v2 is not run here, because its runtime lies in a cluster"
            )
        elif kind == conversions.POD:
            self._pods.append((fields, root))
        elif kind in IGNORED:
            fields.warn("kind", f"a {kind} is not a job, so it is left alone")
        elif kind in KINDS:
            found = kinds.named(kind)
            if _is_served(fields, found):
                job = job_reader.read(root, found, self._diagnostics, fields.file)
                self._add_job(job, fields, root, script)
            else:
                self._report_in_any_version(fields, root, found)
        elif not kind:
            # The kind is not known, but the spec may have a field that only one kind has.
            spec = fields.node("spec")
            written = spec.value if spec is not None and isinstance(spec.value, dict) else {}
            for meant in kinds.KINDS:
                if meant.specs and meant.specs in written:
                    self._report_in_any_version(fields, root, meant)
                    return

    def _report_in_any_version(self, fields: Fields, root: Node, kind: Kind) -> None:
        """Reports what is wrong with a job whichever version of its kind is meant."""
        by_version: list[dict[tuple[int, int, str], Diagnostic]] = []
        for version in kind.api_versions:
            diagnostics = Diagnostics()
            job_reader.read(root, kind, diagnostics, fields.file, version)
            found = (*diagnostics.errors, *diagnostics.warnings)
            by_version.append({(each.line, each.column, each.field): each for each in found})
        for place, each in by_version[0].items():
            if all(place in others for others in by_version):
                self._diagnostics.add(each)

    def _kind(self, fields: Fields) -> str:
        """Returns a kind that is known, or reports what is wrong and returns nothing."""
        kind = fields.text("kind")
        if kind is None and fields.node("kind") is not None:
            return ""
        if kind is None and fields.node("apiVersion") is not None:
            fields.error("kind", "is missing", f"one of {', '.join(KINDS)}")
            return ""
        if kind is None:
            misspelt = next((key for key in fields if name_rules.nearest(key, ("script",))), "")
            hint = f"did you mean script instead of {quoted(misspelt)}?"
            fields.error(
                misspelt,
                "this is neither a manifest with apiVersion and kind nor a short form with script",
                hint if misspelt else "write `script: train.py`",
            )
            return ""
        self._seen.append(kind)
        known = (*KINDS, *references.KINDS, *IGNORED, conversions.POD, conversions.TRAINJOB)
        if kind in known:
            return kind
        nearest = name_rules.nearest(kind, known)
        supported = ", ".join(quoted(each) for each in KINDS)
        hint = f"did you mean {nearest}?" if nearest else ""
        fields.error("kind", f"Unsupported value: {quoted(kind)}: supported values: {supported}", hint)
        return ""

    def _add_job(self, job: Job | None, fields: Fields, root: Node, script: str | None) -> None:
        if job is None:
            return
        key = (job.kind, job.namespace, job.name)
        if job.name and key in self._names:
            fields.error("metadata", f"there are two {job.kind}s named {quoted(job.name)}")
        self._names.add(key)
        self._jobs.append(ReadJob(job, root.plain(), fields.file, root.mark.line, script))

    def _add_short_form(self, fields: Fields, root: Node) -> None:
        short = short_form.read(fields)
        if short is None:
            return
        launch = self._looks(fields.file, short.path) if short.path else Launch()
        if launch.wrong:
            fields.error("script", launch.wrong, launch.hint)
        short = short_form.launched(short, launch)
        manifest = short_form.compile(short)
        compiled = field_positions.document_of(manifest, fields.file, root.mark).root
        diagnostics = Diagnostics(fields.file)
        job = job_reader.read(compiled, kinds.named(short.kind), diagnostics, fields.file)
        for each in (*diagnostics.errors, *diagnostics.warnings):
            self._diagnostics.add(short_form.placed(each, root))
        if job is not None:
            self._jobs.append(ReadJob(job, manifest, fields.file, root.mark.line, short.path, short.module))


def _is_served(fields: Fields, kind: Kind) -> bool:
    version = fields.text("apiVersion")
    if version in kind.api_versions:
        return True
    supported = ", ".join(quoted(each) for each in kind.api_versions)
    if version is not None:
        fields.error("apiVersion", f"Unsupported value: {quoted(version)}: supported values: {supported}")
    elif fields.node("apiVersion") is None:
        fields.error("apiVersion", "is missing", f"write `apiVersion: {kind.api_versions[0]}`")
    return False
