"""The operator as it is installed: its image, its confined pod, and a job that it carries through."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from tools.deploy import image
from tools.testcluster.processes import until

from bireme.operator.install.operator_objects import NAME, NAMESPACE
from tests.cli.commands import Cli, Done
from tests.cluster.harness import PYTHON, Cluster, Json

PATIENCE = 90.0
MISSING = "registry.invalid/bireme-operator:none"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return image.build(tmp_path_factory.mktemp("image") / "operator.tar")


@pytest.fixture(scope="module")
def installed(breakable: Cluster, built: Path, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """A cluster of its own, into which the operator was installed by one command."""
    breakable.load(built)
    folder = tmp_path_factory.mktemp("work")
    words = ("install", "--image", image.REFERENCE, "--kubeconfig", str(breakable.kubeconfig))
    done = Cli(folder / "home", folder)(*words)
    assert done.status == 0, done.err
    return breakable


def _bireme(cluster: Cluster, folder: Path, *words: str) -> Done:
    return Cli(folder / "home", folder)(*words, KUBECONFIG=str(cluster.kubeconfig))


def test_an_image_that_no_node_can_pull_is_named_with_the_way_out(breakable: Cluster, tmp_path: Path) -> None:
    installed = _bireme(breakable, tmp_path, "install", "--image", MISSING, "--timeout", "15")
    examined = _bireme(breakable, tmp_path, "doctor", "--on", "kubernetes")

    assert installed.status == 5, installed
    assert "created   Deployment bireme-operator" in installed.out
    for said in (installed.err, examined.out):
        assert MISSING in said
        assert f"docker push {MISSING}" in said
        assert f"bireme install --image {MISSING}" in said
    assert "no operator of Bireme holds its lease" in examined.out


def test_an_image_that_a_second_try_brings_is_waited_for(
    breakable: Cluster, built: Path, tmp_path: Path
) -> None:
    def fails() -> bool:
        pods = breakable.kubectl.object("pods", "-n", NAMESPACE)["items"]
        return any(
            image.REFERENCE in str(one["status"]) and "PullBackOff" in str(one["status"]) for one in pods
        )

    with ThreadPoolExecutor() as threads:
        installing = threads.submit(_bireme, breakable, tmp_path, "install", "--image", image.REFERENCE)
        assert until(fails, PATIENCE)
        breakable.load(built)
        done = installing.result()

    assert done.status == 0, done


def job(name: str) -> Json:
    command = ["python3", "-c", "import os; print('rank', os.environ['RANK'])"]
    worker = {"containers": [{"name": "pytorch", "image": PYTHON, "command": command}]}
    roles = {"Master": {"template": {"spec": worker}}, "Worker": {"template": {"spec": worker}}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {"pytorchReplicaSpecs": roles},
    }


def test_the_operator_becomes_ready_without_any_privilege(installed: Cluster) -> None:
    kubectl = installed.kubectl

    kubectl("-n", NAMESPACE, "rollout", "status", "deployment", NAME, f"--timeout={PATIENCE:.0f}s")

    pods = kubectl.object("pods", "-n", NAMESPACE)["items"]
    # The one before, whose image no node could pull, may be on its way out.
    (pod,) = [one for one in pods if "deletionTimestamp" not in one["metadata"]]
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    lease = kubectl.object("lease", NAME, "-n", NAMESPACE)
    assert lease["spec"]["holderIdentity"]


def test_a_repeated_installation_repairs_what_kept_its_pod_away(installed: Cluster, tmp_path: Path) -> None:
    kubectl = replace(installed.kubectl, namespace=NAMESPACE)
    kubectl("scale", "deployment", NAME, "--replicas", "0")
    kubectl("delete", "serviceaccount", NAME)
    kubectl("scale", "deployment", NAME, "--replicas", "1")
    assert until(lambda: "ReplicaFailure" in kubectl("get", "deployment", NAME, "-o", "yaml"), 30.0)
    examined = _bireme(installed, tmp_path, "doctor", "--on", "kubernetes")

    done = _bireme(installed, tmp_path, "install")

    assert f"namespace {NAMESPACE} has no ServiceAccount {NAME}" in examined.out
    assert done.status == 0, done.err
    assert f"created   ServiceAccount {NAME}" in done.out
    assert f"the operator runs in namespace {NAMESPACE} with image {image.REFERENCE}" in done.err


def test_it_carries_a_job_through(installed: Cluster) -> None:
    with installed.namespace() as kubectl:
        kubectl.apply(job("mnist"))

        kubectl.wait("--for=condition=Succeeded", "pytorchjob/mnist")

        assert kubectl.logs("mnist-master-0") == "rank 0\n"
        assert kubectl("get", "pytorchjobs", "--no-headers").split()[:2] == ["mnist", "Succeeded"]


def test_its_metrics_are_behind_a_service(installed: Cluster) -> None:
    kubectl = installed.kubectl
    where = f"/api/v1/namespaces/{NAMESPACE}/services/{NAME}:metrics/proxy/metrics"

    assert until(lambda: "training_operator_jobs" in kubectl.run("get", "--raw", where).stdout, 30.0)


def test_it_is_uninstalled_by_one_command(installed: Cluster, tmp_path: Path) -> None:
    cli = Cli(tmp_path / "home", tmp_path)

    done = cli("uninstall", "--yes", "--kubeconfig", str(installed.kubeconfig))

    assert done.status == 0, done.err
    gone = ("get", "namespace", NAMESPACE)
    assert until(lambda: installed.kubectl.run(*gone).returncode != 0, PATIENCE)
