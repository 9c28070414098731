"""Does a real API server take every object that we make, of every kind and version, without a doubt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import SystemRandom

import pytest
from msgspec.structs import replace

from bireme import kinds
from bireme.backends.kubernetes.client.api import Api
from bireme.backends.kubernetes.client.paths import path
from bireme.backends.kubernetes.objects import mpi_objects, pod_builder
from bireme.backends.kubernetes.objects.pod_builder import Extras
from bireme.backends.kubernetes.owned_objects import autoscaler
from bireme.model.replicas import Addresses
from tests.cluster.client_fixtures import working
from tests.unit.kubernetes.making import V1, V1ALPHA2, V2BETA1, Made, Object, container, made, mpi, template

PLURALS = {
    "ConfigMap": "configmaps",
    "HorizontalPodAutoscaler": "horizontalpodautoscalers",
    "Pod": "pods",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "Secret": "secrets",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
}
CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}
FULL = template(
    container(
        "main",
        command=["python", "train.py"],
        env=[{"name": "A", "value": "1"}],
        ports=[{"name": "http", "containerPort": 80}],
        resources={"limits": {"cpu": "1", "nvidia.com/gpu": 1}},
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
    ),
    container("sidecar"),
    metadata={"labels": {"team": "vision"}, "annotations": {"note": "x"}, "finalizers": ["example.com/hold"]},
    initContainers=[container("prepare", command=[""])],
    volumes=[{"name": "data", "emptyDir": {}}],
    tolerations=[{"key": "team", "operator": "Exists"}],
    hostNetwork=True,
)

JOBS = {
    "tensorflow": made("TFJob", dict.fromkeys(("Chief", "PS", "Worker", "Evaluator"), (1, FULL))),
    "pytorch": made("PyTorchJob", {"Master": (1, FULL), "Worker": (2, template())}, restart="OnFailure"),
    "pytorch-elastic": made(
        "PyTorchJob",
        {"Worker": (2, template())},
        elasticPolicy={"minReplicas": 1, "maxReplicas": 4, "metrics": [CPU]},
    ),
    "gang": made(
        "PyTorchJob",
        {"Master": (1, template()), "Worker": (2, FULL)},
        annotations={"bireme.io/restart": "gang"},
    ),
    "xgboost": made("XGBoostJob", {"Master": (1, template()), "Worker": (2, FULL)}),
    "paddle": made("PaddleJob", {"Worker": (2, FULL)}),
    "paddle-ps": made(
        "PaddleJob", {"Master": (1, template()), "Worker": (2, template())}, restart="ExitCode"
    ),
    "jax": made("JAXJob", {"Worker": (2, FULL)}, restart="Always"),
    "mpi-v1": mpi(V1, launcher=FULL, worker=FULL),
    "mpi-v1-plain": mpi(V1),
    "mpi-v1alpha2": mpi(V1ALPHA2),
    "mpi-v2beta1": mpi(V2BETA1, launcher=FULL),
    "mpi-v2beta1-elsewhere": mpi(V2BETA1, sshAuthMountPath="/home/mpiuser/.ssh", runLauncherAsWorker=True),
    "mpi-v2beta1-exec": mpi(V2BETA1, annotations={"bireme.io/mpi-agent": "exec"}),
}


@pytest.mark.parametrize("given", JOBS.values(), ids=list(JOBS))
def test_the_api_server_takes_what_we_make(given: Made, kubeconfig: Path) -> None:
    async def story(api: Api, where: str) -> None:
        here = Made(replace(given.job, namespace=where), given.templates)
        for one in objects(here):
            name = one["metadata"]["name"]
            kind = path(one["apiVersion"], PLURALS[one["kind"]], where)
            kept = await api.create(kind, one, dryRun="All", fieldValidation="Strict")
            assert kept["metadata"]["name"] == name
            assert kept["metadata"]["ownerReferences"] == one["metadata"]["ownerReferences"]

    working(kubeconfig, story)


def objects(of: Made) -> Iterator[Object]:
    """Everything that a job has in a cluster, except what only a gang scheduler's own definitions allow."""
    extras = Extras("cluster.example", "volcano", {"mnist-master-0": "10.0.0.1"})
    for role in of.job.roles:
        for index in range(role.replicas):
            yield of.pod(role.name, index)
            yield of.pod(role.name, index, extras)
            if found := pod_builder.service(of.job, role, index):
                yield found
    files = kinds.of(of.job).files(of.job, frozenset(), Addresses())
    yield from mpi_objects.supports(of.job, files, SystemRandom(), ["mnist-worker-0"])
    if scaler := autoscaler(of.job):
        yield scaler
