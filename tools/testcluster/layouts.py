"""What does an image look like that no registry made: an OCI layout in one tar file, layers uncompressed."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import shutil
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

LAYER = "application/vnd.oci.image.layer.v1.tar"
CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Start:
    """What an image runs, unless a pod says otherwise."""

    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    user: str = ""
    folder: str = "/"
    environ: Sequence[str] = (PATH,)


def write_layer(path: Path, root: Path, wanted: Callable[[Path], bool] = lambda _: True) -> None:
    """Write the wanted files below a folder as a layer; the same files always give the same bytes."""
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for folder, names, files in os.walk(root):
            names.sort()
            # A link to a folder is a file here, and is not followed.
            for name in sorted([*files, *names]):
                file = Path(folder, name)
                if wanted(file):
                    tar.add(file, str(file.relative_to(root)), recursive=False, filter=_timeless)


def write_image(path: Path, reference: str, layers: Sequence[Path], start: Start) -> None:
    """Write an image of some layers, lowest first."""
    digests = [_digest_of(layer) for layer in layers]
    config = json.dumps(_config(digests, start)).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _descriptor(CONFIG, config),
            "layers": [
                {"mediaType": LAYER, "digest": f"sha256:{digest}", "size": layer.stat().st_size}
                for digest, layer in zip(digests, layers, strict=True)
            ],
        }
    ).encode()
    named = {**_descriptor(MANIFEST, manifest), "annotations": {"io.containerd.image.name": reference}}
    index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [named]}).encode()
    scratch = path.with_suffix(".new")
    with tarfile.open(scratch, "w") as tar:
        _add(tar, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        _add(tar, "index.json", index)
        for blob in (config, manifest):
            _add(tar, f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", blob)
        for digest, layer in zip(digests, layers, strict=True):
            tar.add(layer, f"blobs/sha256/{digest}", filter=_timeless)
    scratch.replace(path)


def lay_out(root: Path, files: dict[str, Path]) -> None:
    """Copy files and folders to where an image shall have them."""
    for inside, outside in files.items():
        target = root / inside.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if outside.is_dir():
            shutil.copytree(outside, target, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy2(outside, target)


def _config(digests: Sequence[str], start: Start) -> dict[str, object]:
    return {
        "architecture": MACHINES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {
            "Env": list(start.environ),
            "Entrypoint": list(start.entrypoint),
            "Cmd": list(start.command),
            "User": start.user,
            "WorkingDir": start.folder,
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
    }


def _descriptor(kind: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": kind, "digest": f"sha256:{hashlib.sha256(blob).hexdigest()}", "size": len(blob)}


def _digest_of(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def _timeless(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mtime = 0
    return entry
