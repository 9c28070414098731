"""Reads a pod template of a manifest into the typed value that the core works with."""

from __future__ import annotations

import contextlib

from bireme.kinds.contract import Sentences
from bireme.manifest import known_fields, name_rules
from bireme.manifest.container_variables import read_env, read_env_from
from bireme.manifest.diagnostics import Fields
from bireme.manifest.text.nodes import quoted
from bireme.manifest.volumes import read_mounts, read_volumes, required
from bireme.model import quantities
from bireme.model.pods import Container, PodSpec, Resources

DEFAULT_GRACE = 30


def read(template: Fields, sentences: Sentences) -> PodSpec:
    """Reads a pod template; where it has no containers, so has the result."""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    metadata = template.mapping("metadata")
    if metadata is not None:
        labels, annotations = metadata.text_map("labels"), metadata.text_map("annotations")
        metadata.done(known_fields.METADATA)
    spec = template.mapping("spec")
    template.done(("spec",))
    if spec is None:
        if template.node("spec") is None:
            template.error("spec", sentences.containers)
        return PodSpec((), labels=labels, annotations=annotations)
    volumes = read_volumes(spec)
    plain, inits = (
        tuple(_container(each, volumes.names, sentences, init=init) for each in spec.items(field))
        for field, init in (("containers", False), ("initContainers", True))
    )
    written = spec.node("containers")
    if written is None or written.value == []:
        spec.error("containers", sentences.containers)
    seen: set[str] = set()
    for fields in (*spec.items("initContainers"), *spec.items("containers")):
        name = fields.text("name", "")
        if name and name in seen:
            fields.error("name", f"Duplicate value: {quoted(name)}")
        seen.add(name)
    grace = spec.integer("terminationGracePeriodSeconds", DEFAULT_GRACE, minimum=0)
    spec.done(known_fields.POD_SPEC)
    return PodSpec(plain, inits, volumes.volumes, float(grace), labels, annotations)


def _container(fields: Fields, volumes: frozenset[str], sentences: Sentences, *, init: bool) -> Container:
    name = required(fields, "name")
    if name and (wrong := name_rules.wrong_label(name)):
        fields.error("name", f"Invalid value: {quoted(name)}: {wrong}")
    image = fields.text("image")
    if not image and (image == "" or fields.node("image") is None):
        fields.error("image", sentences.image)
    restart = fields.choice("restartPolicy", ("Always", "Never", "OnFailure"))
    command = fields.texts("command") or ()
    requests, limits = _resources(fields)
    container = Container(
        name=name,
        image=image or "",
        # `command: [""]` is what some templates leave of a command that was not given.
        command=() if command == ("",) else command,
        args=fields.texts("args") or (),
        working_dir=fields.text("workingDir", ""),
        env=read_env(fields),
        env_from=read_env_from(fields),
        ports=_ports(fields),
        requests=requests,
        limits=limits,
        mounts=read_mounts(fields, volumes),
        sidecar=init and restart == "Always",
    )
    fields.done(known_fields.CONTAINER)
    return container


def _ports(container: Fields) -> dict[str, int]:
    ports: dict[str, int] = {}
    for fields in container.items("ports"):
        name = fields.text("name", "")
        number = fields.integer("containerPort", minimum=1, maximum=65535)
        if number is None and fields.node("containerPort") is None:
            fields.error("containerPort", "is missing")
        if name in ports:
            fields.error("name", f"Duplicate value: {quoted(name)}")
        if name and number is not None:
            ports[name] = number
        fields.done(known_fields.PORT)
    return ports


def _resources(container: Fields) -> tuple[Resources, Resources]:
    fields = container.mapping("resources")
    if fields is None:
        return Resources(), Resources()
    requests, limits = fields.quantities("requests"), fields.quantities("limits")
    fields.done(known_fields.RESOURCES)
    asked, limited = fields.mapping("requests"), fields.mapping("limits")
    for inner, given in ((asked, requests), (limited, limits)):
        if inner is None:
            continue
        for name, written in given.items():
            if "/" in name:
                if quantities.parse(written).denominator != 1:
                    inner.error(name, f"Invalid value: {quoted(written)}: must be an integer")
            elif name not in known_fields.STANDARD_RESOURCES and not name.startswith("hugepages-"):
                inner.error(
                    name,
                    f"Invalid value: {quoted(name)}: must be a standard resource for containers",
                    "write cpu, memory, or the full name of a device such as nvidia.com/gpu",
                )
    if limited is not None and "memory" in limits:
        # A limit that nothing can run in; a request may be as small as one likes.
        with contextlib.suppress(ValueError):
            if wrong := quantities.too_little_memory(limits["memory"]):
                limited.warn("memory", wrong)
    for name in requests.keys() & limits.keys():
        if asked is not None and quantities.parse(requests[name]) > quantities.parse(limits[name]):
            text = f"must be less than or equal to {name} limit of {limits[name]}"
            asked.error(name, f"Invalid value: {quoted(requests[name])}: {text}")
    return _counted(requests), _counted(limits)


def _counted(written: dict[str, str]) -> Resources:
    try:
        return Resources(
            cpu=quantities.milli(written["cpu"]) if "cpu" in written else None,
            memory=quantities.whole(written["memory"]) if "memory" in written else None,
            devices={name: quantities.whole(value) for name, value in written.items() if "/" in name},
        )
    except ValueError:
        return Resources()
