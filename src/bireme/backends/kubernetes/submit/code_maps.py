"""Packs a script's folder into ConfigMaps, which the first command of a stock image unpacks.

The archive is the same for the same files, and so are the names of its ConfigMaps: running a script again
sends nothing new. The runtime travels along, so that `import bireme` works there.

Whoever may create ConfigMaps can make one under the name that a job is going to use. So the sum of all files
goes with the job, not with the maps, and a replica runs nothing of them before it has compared it.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any  # what JSON holds

from msgspec import Struct

from bireme import errors, kinds
from bireme.backends.kubernetes.submit.script_folder import ScriptFolder, SentFile
from bireme.model.quantities import show_memory
from bireme.runtime import unpack

MOST = 8 * 1000 * 1000
"""Bytes of an archive: every replica's node fetches them from the API server."""
MOST_UNPACKED = 256 * 1000 * 1000
"""Bytes of files that are worth the try to pack them."""
PART = 900 * 1000
"""Bytes in a ConfigMap, which holds at most a mebibyte."""

UNPACKING = "unpack.py"
CODE_LABEL = "bireme.io/code"
MANAGED = {"app.kubernetes.io/managed-by": "bireme"}
_JOBS = frozenset((kind.api_versions[0].partition("/")[0], kind.name) for kind in kinds.KINDS)
_SHOWN = 5
_PACKAGE = Path(unpack.__file__).parents[1]

Manifest = dict[str, object]


class Parcel(Struct, frozen=True):
    """A folder, ready to be sent."""

    sum: str
    """Of all files in the maps: what a replica must find there."""
    maps: tuple[Manifest, ...]
    """The ConfigMaps, without a namespace."""
    size: int
    requirements: str = ""
    """What is to be installed first, as a path within the folder."""

    @property
    def digest(self) -> str:
        """A short name for the sum."""
        return _digest(self.sum)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map_name(self.digest, number) for number in range(len(self.maps)))


def packed(folder: ScriptFolder) -> Parcel:
    """Packs a folder; refuses one that is too large, and names what makes it so."""
    unpacked = sum(file.size for file in folder.files)
    if unpacked > MOST_UNPACKED:
        raise _too_large(folder, f"holds {show_memory(unpacked)}")
    archive = _archive(folder.files)
    if len(archive) > MOST:
        raise _too_large(folder, f"is {show_memory(len(archive))} when packed")
    fixed = {UNPACKING: Path(unpack.__file__).read_bytes(), unpack.RUNTIME: runtime_zip()}
    first = PART - sum(map(len, fixed.values()))
    cuts = [0, *range(first, len(archive), PART), len(archive)]
    parts = [archive[start:end] for start, end in pairwise(cuts)]
    contents = [{f"code.{number:03}": part} for number, part in enumerate(parts)]
    contents[0] = {**fixed, **contents[0]}
    whole = sum_of({name: data for content in contents for name, data in content.items()})
    digest = _digest(whole)
    maps: list[Manifest] = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": map_name(digest, number), "labels": {**MANAGED, CODE_LABEL: digest}},
            "immutable": True,
            "binaryData": {name: base64.b64encode(data).decode() for name, data in content.items()},
        }
        for number, content in enumerate(contents)
    ]
    return Parcel(whole, tuple(maps), len(archive), folder.requirements)


def sum_of(files: Mapping[str, bytes]) -> str:
    """One sum over names and contents; a replica computes the same, in `starting`."""
    lines = "".join(f"{hashlib.sha256(files[name]).hexdigest()} {name};" for name in sorted(files))
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


def is_same_map(found: Mapping[str, Any], sent: Mapping[str, Any]) -> bool:
    """Whether a ConfigMap that is there can be used as if we had sent it.

    It must hold the same and be unable to change, and must not go with anything but jobs.
    """
    meta = found["metadata"]
    owners = {
        (owner["apiVersion"].partition("/")[0], owner["kind"]) for owner in meta.get("ownerReferences") or ()
    }
    return (
        found.get("binaryData") == sent["binaryData"]
        and not found.get("data")
        and found.get("immutable") is True
        and not meta.get("deletionTimestamp")
        and sent["metadata"]["labels"].items() <= (meta.get("labels") or {}).items()
        and owners <= _JOBS
    )


def map_name(digest: str, number: int) -> str:
    return f"bireme-code-{digest}-{number}"


def runtime_zip() -> bytes:
    """`bireme` as far as a script needs it, as one zip that is the same for the same files."""
    files = [_PACKAGE / "__init__.py", *sorted((_PACKAGE / "runtime").rglob("*.py"))]
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            entry = zipfile.ZipInfo((Path("bireme") / path.relative_to(_PACKAGE)).as_posix())
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
    return target.getvalue()


def _digest(whole: str) -> str:
    return whole.partition(":")[2][:16]


def _archive(files: Sequence[SentFile]) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for file in files:
            data = file.path.read_bytes()
            entry = tarfile.TarInfo(file.name)
            entry.size = len(data)
            entry.mode = 0o755 if file.path.stat().st_mode & 0o100 else 0o644
            archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(plain.getvalue(), 6, mtime=0)


def _too_large(folder: ScriptFolder, fact: str) -> errors.BadInput:
    largest = sorted(folder.files, key=lambda file: file.size, reverse=True)[:_SHOWN]
    named = ", ".join(f"{file.name} ({show_memory(file.size)})" for file in largest)
    example = largest[0].name.partition("/")[0] + ("/" if "/" in largest[0].name else "")
    return errors.BadInput(
        f"{folder.root} {fact}, and at most {show_memory(MOST)} can be sent with a script.\n"
        f"The largest files: {named}",
        hint=f"leave out what the script does not need: echo '{example}' >> {folder.root / '.biremeignore'}\n"
        "data belongs into a volume or into object storage, large code into an image",
    )
