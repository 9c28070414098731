"""Makes what is sent to a cluster for a submission: its manifest there, and the code of a script."""

from __future__ import annotations

import copy
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from bireme import errors, kinds
from bireme.backends.kubernetes.objects import job_objects
from bireme.backends.kubernetes.submit import code_maps, code_mounts, local_paths, script_folder
from bireme.backends.kubernetes.submit.code_maps import Parcel
from bireme.backends.kubernetes.submit.script_folder import ScriptFolder
from bireme.manifest import short_form
from bireme.model.quantities import show_memory
from bireme.runner.submit import Submission
from bireme.sdk import submissions
from bireme.sdk.cluster import images
from bireme.sdk.submissions import SubmissionBatch
from bireme.sdk.views import ScriptFiles

Manifest = dict[str, Any]  # Any: JSON has no better type

_MOST_MENTIONS = 3
_MOST_NAMED = 3
_REFUSED = {
    "maps": (
        "--map supplies paths of an image on this machine; in a cluster the image itself has them",
        "build them into the image, or mount a volume in the manifest",
    ),
    "volumes": (
        "--volume supplies a claim on this machine; a cluster has the claim itself",
        "leave it out; `kubectl get pvc` lists what there is",
    ),
    "command": (
        "--command stands for an image's entrypoint on this machine; in a cluster the image has its own",
        "leave it out, or write `command:` in the manifest",
    ),
    "python": (
        "--python chooses an interpreter of this machine; in a cluster the image brings its own",
        "choose an image with --image",
    ),
    "fits": (
        "--fit shrinks a job to this machine, and it is to run in a cluster",
        "leave it out; a job that is too large waits there, and `bireme show` says for what",
    ),
}


class Home(Struct, frozen=True):
    """The folder and the environment in which settings are looked for."""

    folder: Path
    environ: Mapping[str, str]


class Body(Struct, frozen=True):
    """A job as it is sent, with the code that goes with it."""

    manifest: Manifest
    parcel: Parcel | None = None
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])


def bodies(batch: SubmissionBatch, namespace: str, chosen: str, home: Home) -> tuple[Body, ...]:
    """The body that is sent for each submission. `chosen` is the namespace that the user named, if any."""
    for option, (what, hint) in _REFUSED.items():
        if getattr(batch.options, option):
            raise errors.BadInput(what, hint=hint)
    return tuple(_body(submission, namespace, chosen, home) for submission in batch.submissions)


def files_of_script(script: str, cwd: Path) -> ScriptFiles:
    """What `bireme run SCRIPT --on kubernetes` would send."""
    if not (cwd / script).is_file():
        raise errors.BadInput(f"there is no script {script} in {cwd}")
    launch = submissions.launch_of(cwd / script, script)
    if launch.wrong:
        raise errors.BadInput(launch.wrong, hint=launch.hint)
    folder = script_folder.of_script(script, cwd)
    return ScriptFiles(
        script=script,
        folder=str(folder.root),
        sent=tuple(_shown(file.name) for file in folder.files),
        left_out=tuple(map(_shown, folder.left_out)),
        never_sent=tuple(map(_shown, folder.secrets)),
    )


def _body(submission: Submission, namespace: str, chosen: str, home: Home) -> Body:
    manifest = _named(submission, namespace, chosen)
    options = submission.options
    if options.env:
        manifest = code_mounts.with_variables(manifest, dict(options.env))
    if not submission.script:
        return Body(code_mounts.with_image(manifest, options.image) if options.image else manifest)
    first = next(iter(code_mounts.containers(manifest)), {})
    image, written = options.image, str(first.get("image") or "")
    if not image and written and not short_form.is_placeholder(written):
        image = written
    image = image or images.configured(home.folder, home.environ)
    cwd = Path(submission.cwd)
    if not image:
        raise images.missing(cwd / submission.script, home.environ)
    words = list(first.get("command") or ())
    if submission.script in words and words[words.index(submission.script) - 1] == "-m":
        folder = script_folder.of_module(submission.script, cwd)
    elif (cwd / submission.script).exists():
        folder = script_folder.of_script(submission.script, cwd)
    else:
        raise errors.BadInput(f"there is no script {submission.script} in {cwd}")
    manifest = code_mounts.with_image(manifest, image)
    parcel = code_maps.packed(folder)
    manifest = code_mounts.with_code(
        manifest, parcel, lambda word: folder.script if word == submission.script else word
    )
    # Two runs of one name must not take each other's checkpoints for their own.
    manifest = code_mounts.with_run(manifest, f"{submission.job.name}-{secrets.token_hex(4)}")
    return Body(manifest, parcel, tuple(_notes(submission, manifest, folder, parcel)))


def _named(submission: Submission, namespace: str, chosen: str) -> Manifest:
    """The manifest under the name and in the namespace that the job has."""
    job, manifest = submission.job, copy.deepcopy(submission.manifest)
    metadata: Manifest = dict(manifest.get("metadata") or {})  # type: ignore[call-overload]
    written = metadata.get("namespace")
    if written and chosen and written != chosen:
        raise errors.BadInput(
            f"{job.kind} {job.name} names the namespace {written}, and --namespace says {chosen}",
            hint="leave one of them out",
        )
    metadata |= {"name": job.name, "namespace": written or namespace}
    metadata.pop("generateName", None)
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        job_objects.SUBMISSION: secrets.token_hex(16),
    }
    if kinds.of(job).native:
        # By this label `bireme ps` knows it among all other Jobs.
        metadata["labels"] = {**(metadata.get("labels") or {}), **code_maps.MANAGED}
    manifest.pop("status", None)
    return {**manifest, "metadata": metadata}


def _notes(submission: Submission, manifest: Manifest, folder: ScriptFolder, parcel: Parcel) -> Iterator[str]:
    installs = f"; {Path(folder.requirements).name} is installed at the start" if folder.requirements else ""
    count = f"{len(folder.files)} file{'' if len(folder.files) == 1 else 's'}"
    yield f"sent with the script: {count} of {folder.root} ({show_memory(parcel.size)} packed){installs}"
    every = (
        f"; `bireme check {submission.script}` lists all"
        if submission.script.endswith((".py", ".sh"))
        else ""
    )
    if folder.left_out:
        yield f"ignore files leave out {len(folder.left_out)}: {_first(folder.left_out)}{every}"
    if folder.secrets:
        named = _first(folder.secrets)
        yield f"{len(folder.secrets)} with the names of keys or credentials are never sent: {named}{every}"
    cwd = Path(submission.cwd)
    containers = code_mounts.containers(dict(submission.manifest))
    words = next((list(container.get("command") or ()) for container in containers), [])
    args = words[words.index(submission.script) + 1 :] if submission.script in words else []
    found = local_paths.mentions(cwd / submission.script, args, folder, cwd)
    for mention in found[:_MOST_MENTIONS]:
        where = f"{submission.script}:{mention.line}" if mention.line else "an argument"
        yield (
            f"{where} names {mention.written}, which is on this machine and is not sent: "
            "put data into a volume or into object storage"
        )


def _shown(name: str) -> str:
    """The name as it can be printed: files may have names that are not UTF-8."""
    return os.fsencode(name).decode(errors="backslashreplace")


def _first(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(map(_shown, names[:_MOST_NAMED])) + (f" and {more} more" if more > 0 else "")
