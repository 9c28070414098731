"""Who takes part in a job: the roles of a manifest, with their pods, counts and restart policies."""

from __future__ import annotations

from msgspec import Struct, structs

from bireme.kinds.contract import KindModule, RoleType
from bireme.manifest import name_rules, pod_templates
from bireme.manifest.pod_templates import Sentences
from bireme.manifest.problems import Fields
from bireme.manifest.text.nodes import quoted
from bireme.model.job import Kind, Restart, Role
from bireme.model.pods import Container, PodSpec

MOST_REPLICAS = 5_000
"""Of a whole job: so many were tried. With twice as many, and names as long as they may be, the status of a
job that has succeeded is larger than the 1.5 MiB that etcd takes."""

RESTARTS = (Restart.ALWAYS, Restart.ON_FAILURE, Restart.NEVER, Restart.EXIT_CODE)

# A batch Job's `Never` replaces the pod, where that of a Kubeflow kind gives up.
_BATCH_RESTARTS = {"OnFailure": Restart.ON_FAILURE, "Never": Restart.RECREATE}

_BATCH_SENTENCES = Sentences(containers="is missing", image="is missing")
_MPI_SENTENCES = Sentences(
    specs="Required value: MPIReplicaSpecs is not valid",
    containers="Required value: MPIReplicaSpecs is not valid: containers definition expected in {role}",
    image="Required value: MPIReplicaSpecs is not valid: Image is undefined in the container of {role}",
)
_MPI_V2BETA1_SENTENCES = Sentences(
    specs="Required value: must have replica specs",
    containers="Required value: must define at least one container",
)


class ReadRoles(Struct, frozen=True):
    """The roles in the order of their kind; not complete where one could not be told."""

    roles: tuple[Role, ...]
    complete: bool = True


def read(spec: Fields, module: KindModule, api_version: str) -> ReadRoles:
    """Reads the roles of a job, each with its defaults."""
    types = module.role_types(api_version)
    if not module.SPECS:
        return ReadRoles((_batch_role(spec, module, types[0]),))
    specs = spec.mapping(module.SPECS)
    if specs is None or not specs.keys():
        if specs is not None or spec.node(module.SPECS) is None:
            spec.error(module.SPECS, _sentences(module, api_version).specs)
        return ReadRoles((), complete=False)
    chosen, complete = _chosen(specs, types)
    roles = {type_.key: _role(specs, key, module, type_, api_version) for key, type_ in chosen.items()}
    ordered = tuple(roles[type_.key] for type_ in types if type_.key in roles)
    return ReadRoles(ordered, complete)


def _chosen(specs: Fields, types: tuple[RoleType, ...]) -> tuple[dict[str, RoleType], bool]:
    """Matches the keys of a manifest with the roles of its kind, whatever their case."""
    by_small = {type_.key.lower(): type_ for type_ in types}
    chosen: dict[str, RoleType] = {}
    complete = True
    keys = specs.keys()
    for key in keys:
        type_ = by_small.get(key.lower())
        if type_ is None:
            complete = False
            supported = ", ".join(quoted(each.key) for each in types)
            nearest = name_rules.nearest(key, [each.key for each in types])
            hint = f"did you mean {nearest}?" if nearest else ""
            specs.error(key, f"Unsupported value: {quoted(key)}: supported values: {supported}", hint)
        elif type_ in chosen.values():
            specs.error(key, f"Duplicate value: {quoted(key)}: {type_.key} is there already")
        else:
            chosen[key] = type_
    return chosen, complete


def _role(specs: Fields, key: str, module: KindModule, type_: RoleType, api_version: str) -> Role:
    fields = specs.mapping(key)
    if fields is None:
        if specs.node(key) is None:
            specs.error(key, _sentences(module, api_version, type_.key).containers)
        return _placeholder(module, type_)
    replicas = fields.integer("replicas", type_.replicas, minimum=0, maximum=MOST_REPLICAS)
    restart = Restart(fields.choice("restartPolicy", RESTARTS, type_.restart))
    template = fields.mapping("template")
    pod = PodSpec(())
    if template is not None:
        pod = pod_templates.read(template, _sentences(module, api_version, type_.key))
        _warn_of_inner_policy(template)
    elif fields.node("template") is None:
        fields.error("template", _sentences(module, api_version, type_.key).containers)
    fields.done()
    main = _main(template, pod, module)
    return Role(
        name=type_.key.lower(),
        type=type_.key,
        replicas=replicas,
        restart=restart,
        pod=_with_port(_not_empty(pod, main), main, module),
        main=main,
        naming=type_.naming,
    )


def _batch_role(spec: Fields, module: KindModule, type_: RoleType) -> Role:
    template = spec.mapping("template")
    if template is None:
        if spec.node("template") is None:
            spec.error("template", "is missing")
        return _placeholder(module, type_)
    pod = pod_templates.read(template, _BATCH_SENTENCES)
    restart = _batch_restart(template, type_)
    main = _main(template, pod, module)
    return structs.replace(_placeholder(module, type_), restart=restart, pod=_not_empty(pod, main), main=main)


def _batch_restart(template: Fields, type_: RoleType) -> Restart:
    spec = template.mapping("spec")
    if spec is None:
        return type_.restart
    written = spec.text("restartPolicy")
    supported = ", ".join(quoted(each) for each in _BATCH_RESTARTS)
    if written is None:
        if spec.node("restartPolicy") is None:
            hint = "write `restartPolicy: Never` to replace a failed pod, OnFailure to restart it in place"
            spec.error("restartPolicy", f"Required value: valid values: {supported}", hint)
        return type_.restart
    if written not in _BATCH_RESTARTS:
        spec.error("restartPolicy", f"Unsupported value: {quoted(written)}: supported values: {supported}")
    return _BATCH_RESTARTS.get(written, type_.restart)


def _main(template: Fields | None, pod: PodSpec, module: KindModule) -> str:
    """Names the container that trains: the one with the kind's usual name, else the first."""
    inner = [one.name for one in pod.containers]
    if module.MAIN in inner or not inner:
        return module.MAIN
    spec = None if template is None else template.mapping("spec")
    if module.MAIN and spec is not None:
        text = f"no container is named {quoted(module.MAIN)}, so the first one, {quoted(inner[0])}, trains"
        spec.warn("containers", text)
    return inner[0]


def _with_port(pod: PodSpec, main: str, module: KindModule) -> PodSpec:
    """Adds the kind's port to the main container, unless a port of that name is there."""
    name, number = module.PORT
    if not name:
        return pod
    containers = tuple(
        structs.replace(one, ports={**one.ports, name: number})
        if one.name == main and name not in one.ports
        else one
        for one in pod.containers
    )
    return structs.replace(pod, containers=containers)


def _not_empty(pod: PodSpec, main: str) -> PodSpec:
    # A pod without containers was complained about; what is checked next may rely on there being one.
    return pod if pod.containers else structs.replace(pod, containers=(Container(main),))


def _placeholder(module: KindModule, type_: RoleType) -> Role:
    pod = PodSpec((Container(module.MAIN),))
    return Role(
        type_.key.lower(), type_.key, type_.replicas, type_.restart, pod, module.MAIN, naming=type_.naming
    )


def _warn_of_inner_policy(template: Fields) -> None:
    spec = template.mapping("spec")
    if spec is not None and spec.node("restartPolicy") is not None:
        text = "Restart policy in pod template will be overwritten by restart policy in replica spec"
        spec.warn("restartPolicy", text, "write it beside `template`")


def _sentences(module: KindModule, api_version: str, role: str = "") -> Sentences:
    if module.KIND is not Kind.MPI:
        return Sentences()
    found = _MPI_V2BETA1_SENTENCES if api_version == "kubeflow.org/v2beta1" else _MPI_SENTENCES
    return Sentences(found.specs, found.containers.format(role=role), found.image.format(role=role))
