"""Reads the roles of a manifest, with their pods, counts and restart policies."""

from __future__ import annotations

from msgspec import Struct, structs

from bireme.kinds.contract import MOST_REPLICAS, Kind, RoleType, Sentences
from bireme.manifest import name_rules, pod_templates
from bireme.manifest.diagnostics import Fields
from bireme.manifest.text.nodes import quoted
from bireme.model.job import Restart, Role
from bireme.model.pods import Container, PodSpec

RESTARTS = (Restart.ALWAYS, Restart.ON_FAILURE, Restart.NEVER, Restart.EXIT_CODE)

# A batch Job's `Never` replaces the pod, where that of a Kubeflow kind gives up.
_BATCH_RESTARTS = {"OnFailure": Restart.ON_FAILURE, "Never": Restart.RECREATE}

_BATCH_SENTENCES = Sentences(containers="is missing", image="is missing")


class ReadRoles(Struct, frozen=True):
    """The roles in the order of their kind; not complete where one could not be told."""

    roles: tuple[Role, ...]
    complete: bool = True


def read(spec: Fields, kind: Kind, api_version: str) -> ReadRoles:
    """Reads the roles of a job, each with its defaults."""
    types = kind.role_types(api_version)
    if not kind.specs:
        return ReadRoles((_batch_role(spec, kind, types[0]),))
    specs = spec.mapping(kind.specs)
    if specs is None or not specs.keys():
        if specs is not None or spec.node(kind.specs) is None:
            spec.error(kind.specs, kind.sentences(api_version, "").specs)
        return ReadRoles((), complete=False)
    # Keys are matched with the roles of the kind whatever their case.
    by_small = {type_.key.lower(): type_ for type_ in types}
    roles: dict[str, Role] = {}
    complete = True
    for key in specs:
        type_ = by_small.get(key.lower())
        if type_ is None:
            complete = False
            supported = ", ".join(quoted(each.key) for each in types)
            nearest = name_rules.nearest(key, [each.key for each in types])
            hint = f"did you mean {nearest}?" if nearest else ""
            specs.error(key, f"Unsupported value: {quoted(key)}: supported values: {supported}", hint)
        elif type_.key in roles:
            specs.error(key, f"Duplicate value: {quoted(key)}: {type_.key} is there already")
        else:
            roles[type_.key] = _role(specs, key, kind, type_, api_version)
    ordered = tuple(roles[type_.key] for type_ in types if type_.key in roles)
    return ReadRoles(ordered, complete)


def _role(specs: Fields, key: str, kind: Kind, type_: RoleType, api_version: str) -> Role:
    fields = specs.mapping(key)
    if fields is None:
        if specs.node(key) is None:
            specs.error(key, kind.sentences(api_version, type_.key).containers)
        return _placeholder(kind, type_)
    replicas = fields.integer("replicas", type_.replicas, minimum=0, maximum=MOST_REPLICAS)
    restart = Restart(fields.choice("restartPolicy", RESTARTS, type_.restart))
    template = fields.mapping("template")
    pod = PodSpec(())
    if template is not None:
        pod = pod_templates.read(template, kind.sentences(api_version, type_.key))
        inner = template.mapping("spec")
        if inner is not None and inner.node("restartPolicy") is not None:
            text = "Restart policy in pod template will be overwritten by restart policy in replica spec"
            inner.warn("restartPolicy", text, "write it beside `template`")
    elif fields.node("template") is None:
        fields.error("template", kind.sentences(api_version, type_.key).containers)
    fields.done()
    main = _main(template, pod, kind)
    pod = _not_empty(pod, main)
    port, number = kind.port
    if port:
        # A port of that name that the manifest gives the main container wins.
        with_port = [
            structs.replace(container, ports={**container.ports, port: container.ports.get(port, number)})
            if container.name == main
            else container
            for container in pod.containers
        ]
        pod = structs.replace(pod, containers=tuple(with_port))
    return Role(
        name=type_.key.lower(),
        type=type_.key,
        replicas=replicas,
        restart=restart,
        pod=pod,
        main=main,
        naming=type_.naming,
    )


def _batch_role(spec: Fields, kind: Kind, type_: RoleType) -> Role:
    template = spec.mapping("template")
    if template is None:
        if spec.node("template") is None:
            spec.error("template", "is missing")
        return _placeholder(kind, type_)
    pod = pod_templates.read(template, _BATCH_SENTENCES)
    restart = type_.restart
    if (pod_spec := template.mapping("spec")) is not None:
        written = pod_spec.text("restartPolicy")
        supported = ", ".join(quoted(each) for each in _BATCH_RESTARTS)
        if written is None:
            if pod_spec.node("restartPolicy") is None:
                hint = (
                    "write `restartPolicy: Never` to replace a failed pod, OnFailure to restart it in place"
                )
                pod_spec.error("restartPolicy", f"Required value: valid values: {supported}", hint)
        elif written not in _BATCH_RESTARTS:
            text = f"Unsupported value: {quoted(written)}: supported values: {supported}"
            pod_spec.error("restartPolicy", text)
        else:
            restart = _BATCH_RESTARTS[written]
    main = _main(template, pod, kind)
    return structs.replace(_placeholder(kind, type_), restart=restart, pod=_not_empty(pod, main), main=main)


def _main(template: Fields | None, pod: PodSpec, kind: Kind) -> str:
    """Names the container that trains: the one with the kind's usual name, else the first."""
    inner = [container.name for container in pod.containers]
    if kind.container in inner or not inner:
        return kind.container
    spec = None if template is None else template.mapping("spec")
    if kind.container and spec is not None:
        text = f"no container is named {quoted(kind.container)}, so the first one, {quoted(inner[0])}, trains"
        spec.warn("containers", text)
    return inner[0]


def _not_empty(pod: PodSpec, main: str) -> PodSpec:
    # A pod without containers was reported; what is checked next may rely on there being one.
    return pod if pod.containers else structs.replace(pod, containers=(Container(main),))


def _placeholder(kind: Kind, type_: RoleType) -> Role:
    pod = PodSpec((Container(kind.container),))
    return Role(
        type_.key.lower(), type_.key, type_.replicas, type_.restart, pod, kind.container, naming=type_.naming
    )
