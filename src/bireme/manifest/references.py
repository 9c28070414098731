"""Reads what a job can refer to: the ConfigMaps, Secrets and claims beside it in the manifest."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Container

from msgspec import Struct

from bireme.manifest import known_fields, name_rules
from bireme.manifest.diagnostics import Fields
from bireme.manifest.text.nodes import quoted
from bireme.manifest.volumes import object_name

KINDS = ("ConfigMap", "Secret", "PersistentVolumeClaim")


class References(Struct, frozen=True):
    """Objects by name; their values are texts, in which bytes that are not UTF-8 stand as surrogates.

    `value.encode("utf-8", "surrogateescape")` gives the exact bytes back.
    """

    config_maps: dict[str, dict[str, str]] = {}
    secrets: dict[str, dict[str, str]] = {}
    claims: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        shown = {name: sorted(keys) for name, keys in self.secrets.items()}
        return f"References(config_maps={self.config_maps!r}, secrets={shown!r}, claims={set(self.claims)!r})"


class Gathered:
    """Gathers the objects of all documents."""

    def __init__(self) -> None:
        self._config_maps: dict[str, dict[str, str]] = {}
        self._secrets: dict[str, dict[str, str]] = {}
        self._claims: set[str] = set()

    def add(self, kind: str, document: Fields) -> None:
        """Reads a document of one of `KINDS`."""
        name = ""
        metadata = document.mapping("metadata")
        if metadata is not None:
            metadata.done(known_fields.METADATA)
            name = object_name(metadata, "name")
        elif document.node("metadata") is None:
            document.error("metadata", "is missing: the object needs a name")
        known: dict[str, Container[str]] = {"ConfigMap": self._config_maps, "Secret": self._secrets}
        if name and name in known.get(kind, self._claims):
            document.error("metadata", f"there are two {kind}s named {quoted(name)}")
        for field in ("data", "binaryData", "stringData"):
            fields = document.mapping(field)
            for key in fields or ():
                if fields is not None and (wrong := name_rules.wrong_key(key)):
                    fields.error(key, f"Invalid value: {quoted(key)}: {wrong}")
        match kind:
            case "ConfigMap":
                self._config_maps[name] = document.text_map("data") | _decoded(document, "binaryData")
            case "Secret":
                # What is plain text wins, as in Kubernetes.
                self._secrets[name] = _decoded(document, "data") | document.text_map("stringData")
            case _:
                self._claims.add(name)
        document.done(("apiVersion", "kind", "immutable", "spec", "status", "type"))

    def references(self) -> References:
        """Returns everything that was added."""
        return References(self._config_maps, self._secrets, frozenset(self._claims))


def _decoded(document: Fields, field: str) -> dict[str, str]:
    fields = document.mapping(field)
    if fields is None:
        return {}
    values: dict[str, str] = {}
    keys = fields.keys()
    for key in keys:
        text = fields.text(key, "")
        try:
            # Line breaks within are legal; whatever else does not belong is not.
            raw = base64.b64decode("".join(text.split()), validate=True)
        except (binascii.Error, ValueError):
            fields.error(
                key,
                "the value is not base64",
                "write plain text under `stringData`" if field == "data" else "",
            )
            continue
        values[key] = raw.decode("utf-8", "surrogateescape")
    return values
