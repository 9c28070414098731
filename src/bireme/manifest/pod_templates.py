"""What does a replica run: a pod template of a manifest as the typed value that the core reads."""

from __future__ import annotations

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
    pod = _spec(spec, sentences)
    return PodSpec(pod.containers, pod.init_containers, pod.volumes, pod.grace, labels, annotations)


def _spec(spec: Fields, sentences: Sentences) -> PodSpec:
    volumes = read_volumes(spec)
    containers = _containers(spec, "containers", volumes.names, sentences)
    inits = _containers(spec, "initContainers", volumes.names, sentences)
    written = spec.node("containers")
    if written is None or written.value == []:
        spec.error("containers", sentences.containers)
    _check_names(spec)
    grace = spec.integer("terminationGracePeriodSeconds", DEFAULT_GRACE, minimum=0)
    spec.done(known_fields.POD_SPEC)
    return PodSpec(containers, inits, volumes.volumes, float(grace))


def _containers(
    spec: Fields, field: str, volumes: frozenset[str], sentences: Sentences
) -> tuple[Container, ...]:
    found = spec.items(field)
    return tuple(_container(each, volumes, sentences, init=field == "initContainers") for each in found)


def _check_names(spec: Fields) -> None:
    seen: set[str] = set()
    for fields in (*spec.items("initContainers"), *spec.items("containers")):
        name = fields.text("name", "")
        if name and name in seen:
            fields.error("name", f"Duplicate value: {quoted(name)}")
        seen.add(name)


def _container(fields: Fields, volumes: frozenset[str], sentences: Sentences, *, init: bool) -> Container:
    name = required(fields, "name")
    if name and (wrong := name_rules.wrong_label(name)):
        fields.error("name", f"Invalid value: {quoted(name)}: {wrong}")
    image = fields.text("image")
    if not image and (image == "" or fields.node("image") is None):
        fields.error("image", sentences.image)
    restart = fields.choice("restartPolicy", ("Always", "Never", "OnFailure"))
    requests, limits = _resources(fields)
    container = Container(
        name=name,
        image=image or "",
        command=_command(fields),
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


def _command(fields: Fields) -> tuple[str, ...]:
    command = fields.texts("command") or ()
    # `command: [""]` is what some templates leave of a command that was not given.
    return () if command == ("",) else command


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
    for field, given in (("requests", requests), ("limits", limits)):
        inner = fields.mapping(field)
        for name in given:
            if inner is not None:
                _check_resource(inner, name, given[name])
    _check_memory(fields.mapping("limits"), limits.get("memory"))
    inner = fields.mapping("requests")
    for name in requests.keys() & limits.keys():
        if inner is not None and quantities.parse(requests[name]) > quantities.parse(limits[name]):
            text = f"must be less than or equal to {name} limit of {limits[name]}"
            inner.error(name, f"Invalid value: {quoted(requests[name])}: {text}")
    return _counted(requests), _counted(limits)


def _check_resource(fields: Fields, name: str, written: str) -> None:
    if "/" in name and quantities.parse(written).denominator != 1:
        fields.error(name, f"Invalid value: {quoted(written)}: must be an integer")
    if "/" in name or name in known_fields.STANDARD_RESOURCES or name.startswith("hugepages-"):
        return
    fields.error(
        name,
        f"Invalid value: {quoted(name)}: must be a standard resource for containers",
        "write cpu, memory, or the full name of a device such as nvidia.com/gpu",
    )


def _check_memory(limits: Fields | None, written: str | None) -> None:
    """Warns of a limit that nothing can run in; a request may be as small as one likes."""
    if limits is None or written is None:
        return
    try:
        wrong = quantities.too_little_memory(written)
    except ValueError:
        return
    if wrong:
        limits.warn("memory", wrong)


def _counted(written: dict[str, str]) -> Resources:
    try:
        return Resources(
            cpu=quantities.milli(written["cpu"]) if "cpu" in written else None,
            memory=quantities.whole(written["memory"]) if "memory" in written else None,
            devices={name: quantities.whole(value) for name, value in written.items() if "/" in name},
        )
    except ValueError:
        return Resources()
