"""Which jobs do users of a simulated cluster write: valid ones of every kind, at random."""

from __future__ import annotations

from random import Random
from typing import Any

from bireme import kinds
from bireme.kinds import SERVED, mpi_spec
from bireme.model.job import EVICTION_LIMIT_ANNOTATION, RESTART_ANNOTATION, CleanPods
from tests.simulation.operator.server import Tree

NAMESPACE = "team"
LONGEST_DEADLINE = 600

_RESTARTS = ("OnFailure", "Never", "ExitCode", "Always")
_MPI_RESTARTS = ("Never", "OnFailure")


def draw(rng: Random, number: int, finalizer: float) -> Tree:
    """A job at random, as it is written."""
    kind = rng.choice(SERVED)
    module = kinds.named(kind)
    version = rng.choice(module.api_versions)
    roles = {type: _role(rng, kind, version, count, finalizer) for type, count in _roles(rng, kind)}
    spec: Tree = {module.specs: roles, "runPolicy": _policy(rng), **_options(rng, kind)}
    if len(module.api_versions) > 1:
        spec["servedVersion"] = version.rpartition("/")[2]
    annotations = {RESTART_ANNOTATION: "gang"} if rng.random() < 0.4 else {}
    if rng.random() < 0.2:
        annotations[EVICTION_LIMIT_ANNOTATION] = str(rng.choice((0, 1, 3)))
    always = any(one.get("restartPolicy") == "Always" for one in roles.values())
    if always or version == mpi_spec.V1ALPHA2:
        # A program that is always started again never ends; then only a deadline ends its job.
        spec["runPolicy"]["activeDeadlineSeconds"] = rng.randint(10, LONGEST_DEADLINE)
    return {
        "apiVersion": module.api_versions[0],
        "kind": str(kind),
        "metadata": {
            "name": f"job-{number}",
            "namespace": NAMESPACE,
            "annotations": annotations,
        },
        "spec": spec,
    }


def scaled(rng: Random, tree: Tree) -> Tree:
    """The spec of a job with another number of workers."""
    specs = kinds.named(tree["kind"]).specs
    roles = tree["spec"][specs]
    if "Worker" not in roles:
        return dict(tree["spec"])
    worker = {**roles["Worker"], "replicas": rng.randint(1, 4)}
    return {**tree["spec"], specs: {**roles, "Worker": worker}}


def suspended(tree: Tree, suspend: bool) -> Tree:
    """The spec of a job that is put aside, or comes back."""
    return {**tree["spec"], "runPolicy": {**tree["spec"]["runPolicy"], "suspend": suspend}}


def _roles(rng: Random, kind: str) -> list[tuple[str, int]]:
    many = rng.randint(1, 3)
    match kind:
        case "JAXJob":
            return [("Worker", many)]
        case "MPIJob":
            return [("Launcher", 1), ("Worker", many)]
        case "XGBoostJob":
            return [("Master", 1), ("Worker", many)]
        case "MXJob":
            return [("Scheduler", 1), ("Server", 1), ("Worker", many)]
        case "TFJob":
            chief = rng.choice(([], [("Chief", 1)]))
            more = [("PS", rng.randint(1, 2))] if rng.random() < 0.4 else []
            return [*chief, *more, ("Worker", many)]
        case _:
            return [("Master", 1), ("Worker", many)] if rng.random() < 0.6 else [("Worker", many)]


def _role(rng: Random, kind: str, version: str, replicas: int, finalizer: float) -> Tree:
    main: dict[str, Any] = {
        "name": kinds.named(kind).container or "main",
        "image": "train",
        "command": ["train"],
    }
    template: Tree = {"spec": {"containers": [main], "terminationGracePeriodSeconds": rng.choice((0, 2, 30))}}
    if rng.random() < finalizer:
        template["metadata"] = {"finalizers": ["example.com/hold"]}
    restarts = _MPI_RESTARTS if version == mpi_spec.V2BETA1 else _RESTARTS
    return {"replicas": replicas, "restartPolicy": rng.choice(restarts), "template": template}


def _policy(rng: Random) -> Tree:
    policy: Tree = {"cleanPodPolicy": str(rng.choice(tuple(CleanPods)))}
    if rng.random() < 0.2:
        policy["ttlSecondsAfterFinished"] = rng.choice((0, 30))
    if rng.random() < 0.2:
        policy["activeDeadlineSeconds"] = rng.randint(1, LONGEST_DEADLINE)
    if rng.random() < 0.3:
        policy["backoffLimit"] = rng.choice((0, 1, 4, 12))
    if rng.random() < 0.05:
        policy["suspend"] = True
    return policy


def _options(rng: Random, kind: str) -> Tree:
    if kind == "MXJob":
        return {"jobMode": "MXTrain"}
    if kind == "TFJob" and rng.random() < 0.3:
        return {"successPolicy": "AllWorkers", "enableDynamicWorker": rng.random() < 0.5}
    if kind == "PyTorchJob" and rng.random() < 0.2:
        metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}
        metrics = [metric] if rng.random() < 0.5 else []
        return {"elasticPolicy": {"maxReplicas": 4, "metrics": metrics}}
    return {}
