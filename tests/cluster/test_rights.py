"""With the rights that are installed, and no others, the operator does all of its work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from bireme import kinds
from bireme.operator.install import crds, operator_objects
from tests.cluster.control_plane import Plane, plane
from tests.cluster.harness import Json
from tests.cluster.operator_fixtures import ROOT, Jobs, Operator, operator, until
from tests.unit.manifest.samples import KINDS

ACCOUNT = f"system:serviceaccount:{operator_objects.NAMESPACE}:{operator_objects.NAME}"
ELASTIC: Json = {
    "minReplicas": 1,
    "maxReplicas": 3,
    "metrics": [
        {
            "type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
        }
    ],
}
RESOURCES = ("pods", "services", "configmaps", "secrets", "serviceaccounts", "roles", "rolebindings", "hpa")


@pytest.fixture(scope="module")
def served() -> Iterator[Plane]:
    with plane("rights") as made:
        made("-n", operator_objects.NAMESPACE, "apply", "-k", str(ROOT / "deploy"))
        for kind in kinds.SERVED:
            made("wait", "--for", "condition=Established", f"crd/{crds.definition_name(kind)}")
        yield made


@pytest.fixture(scope="module")
def as_operator(served: Plane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubeconfig that has the rights of the operator's own account."""
    config: Json = yaml.safe_load(served.kubeconfig.read_text())
    token = served("-n", operator_objects.NAMESPACE, "create", "token", operator_objects.NAME)
    config["users"] = [{"name": one["name"], "user": {"token": token.strip()}} for one in config["users"]]
    written = tmp_path_factory.mktemp("rights") / "kubeconfig"
    written.write_text(yaml.safe_dump(config))
    return written


@pytest.fixture(scope="module")
def working(as_operator: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    log = tmp_path_factory.mktemp("operator") / "log"
    with operator(as_operator, log, "--leader-elect", "--lease-namespace", operator_objects.NAMESPACE) as one:
        yield one


def manifests() -> dict[str, Json]:
    """A job of every kind and version, one of them with an autoscaler."""
    texts = {name: text for name, text in KINDS.items() if name != "batch"}
    texts["mpi-v1alpha2"] = texts["mpi"].replace("kubeflow.org/v1", "kubeflow.org/v1alpha2")
    found: dict[str, Json] = {}
    for name, text in texts.items():
        manifest = yaml.safe_load(text)
        manifest["metadata"] = {"name": name}
        found[name] = manifest
    found["pytorch"]["spec"] = {
        "elasticPolicy": ELASTIC,
        "pytorchReplicaSpecs": {"Worker": found["pytorch"]["spec"]["pytorchReplicaSpecs"]["Worker"]},
    }
    return found


def test_every_kind_is_served_with_the_rights_that_are_installed(served: Plane, working: Operator) -> None:
    jobs = Jobs(served, "rights")
    wanted = manifests()

    for manifest in wanted.values():
        jobs.create(manifest)

    pods = {f"{name}-launcher" if name.startswith("mpi") else f"{name}-worker-0" for name in wanted}
    played: set[str] = set()
    # Some replicas start only when others are there, so whatever was started is played at once.
    until(lambda: pods <= _play(jobs, played), f"pods of every job: {pods}")
    made = {resource: len(jobs.names(resource)) for resource in RESOURCES}
    assert all(made.values()), made
    for name, manifest in wanted.items():
        until(lambda: jobs.conditions(f"{manifest['kind']}/{name}"), "a status")  # noqa: B023
    jobs.patch("pytorchjob/pytorch", {"spec": {"runPolicy": {"suspend": True}}})
    until(lambda: not jobs.names("hpa"), "the autoscaler to go")
    until(lambda: jobs.names("events"), "events")
    assert working.process is not None
    assert working.process.poll() is None
    assert "forbidden" not in working.log.read_text().lower()


def test_operators_without_election_are_seen_with_the_rights_that_are_installed(
    served: Plane, as_operator: Path, tmp_path: Path
) -> None:
    options = ("--no-leader-elect", "--lease-namespace", operator_objects.NAMESPACE, "--namespace", "default")
    leases = (
        "-n",
        operator_objects.NAMESPACE,
        "get",
        "leases",
        "-l",
        "bireme.io/operator=unelected",
        "-o",
        "name",
    )

    with (
        operator(as_operator, tmp_path / "one", *options) as one,
        operator(as_operator, tmp_path / "two", *options) as two,
    ):
        until(lambda: len(served(*leases).split()) == 2, "a lease of each")
        assert (one.stop(), two.stop()) == (0, 0)

    assert not served(*leases).split()
    assert "cannot be written" not in one.log.read_text() + two.log.read_text()


def _play(jobs: Jobs, played: set[str]) -> set[str]:
    """Lets new pods run; returns all that do."""
    new = set(jobs.pods()) - played
    jobs.run(*new)
    played |= new
    return played


@pytest.mark.parametrize(
    "denied",
    [
        "list secrets",
        "delete secrets",
        "create deployments.apps",
        "create clusterroles.rbac.authorization.k8s.io",
        "delete nodes",
        "patch pods",
        "patch services",
        "patch rolebindings.rbac.authorization.k8s.io",
        "delete configmaps",
        "update leases.coordination.k8s.io",
        f"create {kinds.named('JAXJob').plural}.kubeflow.org",
        f"patch {kinds.named('JAXJob').plural}.kubeflow.org",
        "patch customresourcedefinitions.apiextensions.k8s.io",
    ],
)
def test_what_is_not_needed_is_denied(served: Plane, denied: str) -> None:
    assert served.run("auth", "can-i", *denied.split(), "--as", ACCOUNT, "-A").stdout.strip() == "no"


def test_people_with_the_usual_roles_may_use_jobs(served: Plane) -> None:
    # A controller adds these to the usual roles by their labels; here only the labels can be seen.
    for role, words in (("edit", "aggregate-to-edit=true"), ("view", "aggregate-to-view=true")):
        selector = f"app.kubernetes.io/part-of=bireme,rbac.authorization.k8s.io/{words}"
        assert f"bireme-jobs-{role}" in served("get", "clusterroles", "-l", selector, "-o", "name")
