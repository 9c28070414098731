"""Reads the volumes of a pod template, and where containers mount them."""

from __future__ import annotations

from msgspec import Struct

from bireme.manifest import known_fields, name_rules
from bireme.manifest.diagnostics import Fields
from bireme.manifest.text.nodes import quoted
from bireme.model.pods import (
    EmptyDir,
    HostPath,
    Mount,
    OtherVolume,
    RefFiles,
    RefKind,
    Volume,
    VolumeClaim,
    VolumeSource,
)


class ReadVolumes(Struct, frozen=True):
    """The volumes that can be read, and the names of all that are declared."""

    volumes: tuple[Volume, ...]
    names: frozenset[str]


def read_volumes(spec: Fields) -> ReadVolumes:
    """Reads `volumes` of a pod's spec."""
    volumes: list[Volume] = []
    declared: set[str] = set()
    for fields in spec.items("volumes"):
        name = required(fields, "name")
        if name and (wrong := name_rules.wrong_label(name)):
            fields.error("name", f"Invalid value: {quoted(name)}: {wrong}")
        if name in declared:
            fields.error("name", f"Duplicate value: {quoted(name)}")
        declared.add(name)
        written = fields.keys()
        given = [key for key in written if key != "name" and fields.node(key) is not None]
        known = [key for key in given if key in known_fields.VOLUME_SOURCES]
        if len(known) > 1:
            fields.error(known[1], "Forbidden: may not specify more than 1 volume type")
        if not known:
            nearest = name_rules.nearest(given[0], known_fields.VOLUME_SOURCES) if given else ""
            usual = "write `emptyDir: {}` for a folder that lives as long as the replica"
            fields.error(
                given[0] if given else "",
                "Required value: must specify a volume type",
                f"did you mean {nearest}?" if nearest else usual,
            )
            continue
        source = _source(fields, known[0])
        for key in given:
            if key not in known:
                fields.warn(key, f"unknown field {quoted(key)}")
        if name and source is not None:
            volumes.append(Volume(name, source))
    return ReadVolumes(tuple(volumes), frozenset(declared))


def read_mounts(container: Fields, declared: frozenset[str]) -> tuple[Mount, ...]:
    """Reads `volumeMounts` of a container; each must name a volume that is declared."""
    mounts: list[Mount] = []
    taken: set[str] = set()
    for fields in container.items("volumeMounts"):
        name = required(fields, "name")
        path = required(fields, "mountPath")
        if name and name not in declared:
            few = sorted(declared)[:3]
            more = ", ..." if len(declared) > len(few) else ""
            hint = f"the volumes are {', '.join(few)}{more}"
            if not declared:
                hint = "declare it under `volumes` of the same template"
            fields.error("name", f"Not found: {quoted(name)}", hint)
        if path and path in taken:
            fields.error("mountPath", f"Invalid value: {quoted(path)}: must be unique")
        taken.add(path)
        mounts.append(Mount(name, path, fields.boolean("readOnly", False), _inner_path(fields, "subPath")))
        fields.done(known_fields.MOUNT)
    return tuple(mounts)


def required(fields: Fields, name: str) -> str:
    """Reads a text that must be there and not be empty."""
    text = fields.text(name)
    # A value of the wrong type was reported already.
    if not text and (text == "" or fields.node(name) is None):
        fields.error(name, "is missing")
    return text or ""


def object_name(fields: Fields, name: str) -> str:
    """Reads the name of an object; a cluster has none of another form, and here it names a folder."""
    text = required(fields, name)
    if text and (wrong := name_rules.wrong_subdomain(text)):
        fields.error(name, f"Invalid value: {quoted(text)}: {wrong}")
    return text


def _source(volume: Fields, type_: str) -> VolumeSource | None:
    fields = volume.mapping(type_)
    if fields is None:
        return None
    match type_:
        case "emptyDir":
            in_memory = fields.text("medium", "") == "Memory"
            fields.quantity("sizeLimit")
            source: VolumeSource = EmptyDir(in_memory)
        case "hostPath":
            fields.text("type")
            source = HostPath(required(fields, "path"))
        case "persistentVolumeClaim":
            source = VolumeClaim(object_name(fields, "claimName"), fields.boolean("readOnly", False))
        case "configMap":
            source = _files(fields, RefKind.CONFIG_MAP, "name")
        case "secret":
            source = _files(fields, RefKind.SECRET, "secretName")
        case _:
            return OtherVolume(type_)
    fields.done()
    return source


def _files(fields: Fields, kind: RefKind, name: str) -> RefFiles:
    items: dict[str, str] = {}
    for item in fields.items("items"):
        required(item, "path")
        items[required(item, "key")] = _inner_path(item, "path")
        item.done(("mode",))
    fields.integer("defaultMode")
    return RefFiles(kind, object_name(fields, name), items, fields.boolean("optional", False))


def _inner_path(fields: Fields, name: str) -> str:
    """Reads a path that must stay within its volume."""
    path = fields.text(name, "")
    if path.startswith("/"):
        fields.error(name, f"Invalid value: {quoted(path)}: must be a relative path")
    if ".." in path.split("/"):
        fields.error(name, f"Invalid value: {quoted(path)}: must not contain '..'")
    return path
