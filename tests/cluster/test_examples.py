"""Every example on the real cluster, with its real framework, by kubectl alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster import operator_fixtures
from tests.cluster.examples import EXAMPLES, adapted
from tests.cluster.harness import Cluster, Json, Kubectl
from tests.cluster.operator_fixtures import CRDS, Operator

PATIENCE = 240.0

# The manifest, the pod whose log tells, and what it says.
TOLD = {
    "pytorch-digits/pytorchjob.yaml": ("master-0", "accuracy: 0.9"),
    "tensorflow-mirrored/tfjob.yaml": ("worker-0", ""),
    "tensorflow-ps/tfjob.yaml": ("chief-0", ""),
    "jax-allreduce/jaxjob.yaml": ("worker-0", ""),
    "xgboost/xgboostjob.yaml": ("master-0", ""),
    "paddle/paddlejob.yaml": ("worker-0", ""),
    "mxnet/mxjob.yaml": ("worker-1", ": learnt 2.0, -3.4, 1.7, 0.3"),
    "mpi-ring/mpijob-v1.yaml": ("launcher", "correct=True"),
    "mpi-ring/mpijob-v1alpha2.yaml": ("launcher", "correct=True"),
    "mpi-ring/mpijob-v2beta1.yaml": ("launcher", "correct=True"),
}


@pytest.fixture(scope="module", autouse=True)
def operator(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    for file in CRDS:
        cluster.kubectl("apply", "-f", str(file))
    cluster.load("openmpi", "openmpi-ssh")
    with operator_fixtures.operator(cluster.kubeconfig, tmp_path_factory.mktemp("operator") / "log") as one:
        yield one


@pytest.mark.parametrize("example", TOLD)
@pytest.mark.timeout(PATIENCE + 60)
def test_it_succeeds(example: str, kubectl: Kubectl, tmp_path: Path) -> None:
    manifest = adapted(EXAMPLES / example, kubectl.namespace)
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(manifest))
    pod, words = TOLD[example]

    kubectl("create", "-f", str(file))
    end = ended(kubectl, manifest)

    told = kubectl.logs(f"{manifest['metadata']['name']}-{pod}")
    assert end == "Succeeded", told
    assert words in told
    kubectl("delete", "-f", str(file))


@pytest.mark.parametrize("example", ["job/job.yaml", "job-indexed/job.yaml"])
def test_a_batch_job_stays_with_its_own_controller(example: str, kubectl: Kubectl) -> None:
    manifest = adapted(EXAMPLES / example, kubectl.namespace)

    kubectl("create", "-f", "-", stdin=yaml.safe_dump(manifest))

    kubectl.wait("--for=condition=Complete", f"job/{manifest['metadata']['name']}")


def ended(kubectl: Kubectl, manifest: Json) -> str:
    """Wait for the end of a job, and say which it is."""
    what = f"{manifest['kind'].lower()}/{manifest['metadata']['name']}"
    due = time.monotonic() + PATIENCE
    while time.monotonic() < due:
        conditions = kubectl.object(what).get("status", {}).get("conditions", [])
        held = [one["type"] for one in conditions if one["status"] == "True"]
        if held and held[-1] in ("Succeeded", "Failed"):
            return str(held[-1])
        time.sleep(0.5)
    raise AssertionError(f"{what} is {held} after {PATIENCE:.0f} s: {kubectl('get', 'pods,events')}")
