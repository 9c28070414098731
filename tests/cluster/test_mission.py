"""Manifests that people found in tutorials run on a cluster with only the image's name replaced."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tools.testcluster import images
from tools.testcluster.layouts import Start

from tests.cluster import operator_fixtures
from tests.cluster.harness import Cluster, Json, Kubectl
from tests.cluster.operator_fixtures import CRDS, Operator
from tests.cluster.test_examples import ended
from tests.unit.manifest import samples

TELL = "import json, os, sys\nprint(json.loads(os.environ['TF_CONFIG'])['task'], sys.argv[1:])\n"
LOOK = "import os, sys\nprint('looking at', os.listdir('/mnt/data'), sys.argv[1:])\n"
ARGUMENTS = "import sys\nprint(sys.argv[1:])\n"
SIZE = """
from mpi4py import MPI
world = MPI.COMM_WORLD
print("rank", world.rank, "of", world.size, "on", MPI.Get_processor_name(), flush=True)
"""
# The program that each image of the manifests holds, where, and on which of our images.
HELD = {
    "my-mnist": (TELL, "/opt/app/train.py", "python"),
    "dl_env": (LOOK, "/opt/app/train.py", "python"),
    "tf-mnist": (ARGUMENTS, "/opt/app/train.py", "python"),
    "horovod-cpu": (SIZE, "/examples/tensorflow_mnist.py", "openmpi"),
}


@pytest.fixture(scope="module", autouse=True)
def operator(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    for file in CRDS:
        cluster.kubectl("apply", "-f", str(file))
    folder = tmp_path_factory.mktemp("mission")
    cluster.load(*(_image(folder, name) for name in HELD))
    with operator_fixtures.operator(cluster.kubeconfig, folder / "log") as one:
        yield one


def _image(folder: Path, name: str) -> Path:
    text, path, base = HELD[name]
    script = folder / f"{name}.py"
    script.write_text(text)
    start = Start(entrypoint=() if base == "openmpi" else ("python3", path))
    return images.make(folder / f"{name}.tar", f"bireme.test/{name}:1", {path: script}, start, base=base)


def manifest(sample: str, image: str) -> Json:
    """The sample with the name of its image replaced by the one that the cluster has."""
    written = next(one["image"] for one in _containers(yaml.safe_load(sample)))
    return yaml.safe_load(sample.replace(written, f"bireme.test/{image}:1"))


def _containers(manifest: Json) -> Iterator[Json]:
    spec = manifest["spec"]
    roles = (
        [spec]
        if "template" in spec
        else next(iter(v for k, v in spec.items() if k.endswith("Specs"))).values()
    )
    for role in roles:
        yield from role["template"]["spec"]["containers"]


def test_the_tfjob_without_a_command(kubectl: Kubectl) -> None:
    job = manifest(samples.TFJOB_OF_A_TUTORIAL, "my-mnist")
    kubectl("create", "-f", "-", stdin=yaml.safe_dump(job))

    assert ended(kubectl, job) == "Succeeded"

    assert "{'type': 'worker', 'index': 0}" in kubectl.logs("mnist-worker-0")


def test_the_mpijob_of_version_v1alpha2(kubectl: Kubectl) -> None:
    job = manifest(samples.MPIJOB_OF_2020, "horovod-cpu")
    kubectl("create", "-f", "-", stdin=yaml.safe_dump(job))

    assert ended(kubectl, job) == "Succeeded"

    told = kubectl.logs("tensorflow-mnist-launcher")
    assert "rank 0 of 2 on tensorflow-mnist-worker-0" in told
    assert "rank 1 of 2 on tensorflow-mnist-worker-1" in told


def test_the_job_with_a_claim_and_a_gpu(cluster: Cluster, kubectl: Kubectl, tmp_path: Path) -> None:
    cluster.advertise(cluster.nodes[0], "nvidia.com/gpu", 2)
    (tmp_path / "digits").touch()
    kubectl.apply(*_claim(kubectl.namespace, tmp_path))
    job = manifest(samples.JOB_WITH_A_CLAIM, "dl_env")
    kubectl("create", "-f", "-", stdin=yaml.safe_dump(job))

    kubectl.wait("--for=condition=Complete", "job/deeplearning")

    assert "looking at ['digits']" in kubectl.logs("job/deeplearning")


def test_the_job_with_arguments_for_an_entrypoint(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.advertise(cluster.nodes[0], "nvidia.com/gpu", 2)
    job = manifest(samples.JOB_WITH_ARGUMENTS, "tf-mnist")
    kubectl("create", "-f", "-", stdin=yaml.safe_dump(job))

    kubectl.wait("--for=condition=Complete", "job/mnist-demo")

    assert "['--max_steps', '500']" in kubectl.logs("job/mnist-demo")


def _claim(namespace: str, folder: Path) -> tuple[Json, Json]:
    size = {"storage": "1Gi"}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"data-{namespace}"},
        "spec": {
            "capacity": size,
            "accessModes": ["ReadWriteMany"],
            "hostPath": {"path": str(folder)},
            "claimRef": {"namespace": namespace, "name": "data-pvc"},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-pvc"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": size},
            "volumeName": f"data-{namespace}",
            "storageClassName": "",
        },
    }
    return volume, claim
