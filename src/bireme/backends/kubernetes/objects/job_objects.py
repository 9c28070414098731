"""Reads the object of a job: only what we act on is decoded."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from bireme.backends.kubernetes.objects.api_types import Meta
from bireme.errors import BadManifest
from bireme.kinds.contract import GROUP
from bireme.model.decode_errors import DAMAGED

SERVED_VERSION = "servedVersion"
"""The field of a spec that tells in which version a job was written, where a kind has several."""


class JobObject(Struct, frozen=True):
    """A job as the API keeps it; spec and status are decoded by whoever needs them."""

    apiVersion: str = ""
    kind: str = ""
    metadata: Meta = Meta()
    spec: Raw = Raw(b"{}")
    status: Raw = Raw(b"")


def manifest(one: JobObject) -> dict[str, Any]:
    """The manifest that a user would have written to get this job; raises BadManifest if it has no spec."""
    try:
        spec = msgspec.json.decode(one.spec, type=dict[str, Any])
    except DAMAGED as error:
        raise BadManifest(f"its spec cannot be read: {error}", where=one.metadata.name) from error
    version = spec.pop(SERVED_VERSION, None)
    metadata: dict[str, Any] = {"name": one.metadata.name, "namespace": one.metadata.namespace}
    if one.metadata.labels:
        metadata["labels"] = one.metadata.labels
    if one.metadata.annotations:
        metadata["annotations"] = one.metadata.annotations
    return {
        "apiVersion": f"{GROUP}/{version}" if version else one.apiVersion,
        "kind": one.kind,
        "metadata": metadata,
        "spec": spec,
    }
