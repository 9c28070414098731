"""What is sent to a cluster for an order: its manifest there, and the code of a script."""

from __future__ import annotations

import copy
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from bireme import errors
from bireme.backends.kubernetes.objects import labels
from bireme.backends.kubernetes.submit import code_maps, code_mounts, local_paths, script_folder
from bireme.backends.kubernetes.submit.code_maps import Parcel
from bireme.backends.kubernetes.submit.script_folder import Folder
from bireme.manifest import short_form
from bireme.model.job import Kind
from bireme.model.quantities import show_memory
from bireme.runner.submit import Submission
from bireme.sdk.cluster import images, script_files
from bireme.sdk.submissions import RunOptions, SubmissionBatch

Manifest = dict[str, Any]  # Any: JSON has no better type

_MOST_MENTIONS = 3
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
    """Where settings are looked for."""

    folder: Path
    environ: Mapping[str, str]


class Body(Struct, frozen=True):
    """A job as it is sent, with the code that goes with it."""

    manifest: Manifest
    order: Submission
    parcel: Parcel | None = None
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])


def bodies(ordered: SubmissionBatch, namespace: str, chosen: str, home: Home) -> tuple[Body, ...]:
    """What is sent for each order. `chosen` is the namespace that the user named, if any."""
    _refuse(ordered.given)
    return tuple(_body(order, ordered.given, namespace, chosen, home) for order in ordered.orders)


def _refuse(given: RunOptions) -> None:
    for option, (what, hint) in _REFUSED.items():
        if getattr(given, option):
            raise errors.BadInput(what, hint=hint)


def _body(order: Submission, given: RunOptions, namespace: str, chosen: str, home: Home) -> Body:
    manifest = _named(order, namespace, chosen)
    if given.environment:
        manifest = code_mounts.with_variables(manifest, dict(given.environment))
    if not order.script:
        return Body(code_mounts.with_image(manifest, given.image) if given.image else manifest, order)
    manifest = code_mounts.with_image(manifest, _image(order, manifest, given, home))
    folder = _folder(order, manifest)
    parcel = code_maps.packed(folder)
    manifest = code_mounts.with_code(
        manifest, parcel, lambda word: folder.script if word == order.script else word
    )
    # Two runs of one name must not take each other's checkpoints for their own.
    manifest = code_mounts.with_run(manifest, f"{order.job.name}-{secrets.token_hex(4)}")
    return Body(manifest, order, parcel, tuple(_notes(order, manifest, folder, parcel)))


def _named(order: Submission, namespace: str, chosen: str) -> Manifest:
    """The manifest under the name and in the namespace that the job has."""
    manifest = copy.deepcopy(order.manifest)
    metadata: Manifest = dict(manifest.get("metadata") or {})  # type: ignore[call-overload]
    written = metadata.get("namespace")
    if written and chosen and written != chosen:
        raise errors.BadInput(
            f"{order.job.kind} {order.job.name} names the namespace {written}, and --namespace says {chosen}",
            hint="leave one of them out",
        )
    metadata |= {"name": order.job.name, "namespace": written or namespace}
    metadata.pop("generateName", None)
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        labels.SUBMISSION: secrets.token_hex(16),
    }
    if order.job.kind is Kind.BATCH:
        # By this label `bireme ps` knows it among all other Jobs.
        metadata["labels"] = {**(metadata.get("labels") or {}), **code_maps.MANAGED}
    manifest.pop("status", None)
    return {**manifest, "metadata": metadata}


def _image(order: Submission, manifest: Manifest, given: RunOptions, home: Home) -> str:
    written = next((str(one.get("image") or "") for one in code_mounts.containers(manifest)), "")
    if given.image:
        return given.image
    if written and not short_form.is_placeholder(written):
        return written
    found = images.configured(home.folder, home.environ)
    if not found:
        raise images.missing(Path(order.supplies.cwd, order.script), home.environ)
    return found


def _folder(order: Submission, manifest: Manifest) -> Folder:
    cwd = Path(order.supplies.cwd)
    words = next((list(one.get("command") or ()) for one in code_mounts.containers(manifest)), [])
    is_module = order.script in words and words[words.index(order.script) - 1] == "-m"
    if is_module:
        return script_folder.of_module(order.script, cwd)
    if not (cwd / order.script).exists():
        raise errors.BadInput(f"there is no script {order.script} in {cwd}")
    return script_folder.of_script(order.script, cwd)


def _notes(order: Submission, manifest: Manifest, folder: Folder, parcel: Parcel) -> Iterator[str]:
    installs = f"; {Path(folder.requirements).name} is installed at the start" if folder.requirements else ""
    count = f"{len(folder.files)} file{'' if len(folder.files) == 1 else 's'}"
    yield f"sent with the script: {count} of {folder.root} ({show_memory(parcel.size)} packed){installs}"
    yield from script_files.sentences(folder, order.script)
    cwd = Path(order.supplies.cwd)
    words = next((list(one.get("command") or ()) for one in code_mounts.containers(dict(order.manifest))), [])
    args = words[words.index(order.script) + 1 :] if order.script in words else []
    found = local_paths.mentions(cwd / order.script, args, folder, cwd)
    for one in found[:_MOST_MENTIONS]:
        where = f"{order.script}:{one.line}" if one.line else "an argument"
        yield (
            f"{where} names {one.written}, which is on this machine and is not sent: "
            "put data into a volume or into object storage"
        )
