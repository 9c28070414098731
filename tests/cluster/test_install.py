"""`bireme install` and `bireme uninstall` say what they did, fight nobody, and leave nothing of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bireme import kinds
from bireme.operator.install import conflicts, crds
from tests.cli.commands import Cli, Done
from tests.cluster.control_plane import Plane, plane
from tests.cluster.harness import Json
from tests.unit.manifest.samples import JAXJOB

IMAGE = "registry.example/operator:1"
NAMED = ("--image", IMAGE, "--no-wait")
"""What an installation names here, where no node could run the operator."""
OPERATOR = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "training-operator", "namespace": "default"},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "operator", "image": "training-operator"}]},
        },
    },
}
WEBHOOK = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": conflicts.WEBHOOK},
    "webhooks": [],
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Plane]:
    with plane("install") as made:
        yield made


@pytest.fixture
def bireme(cluster: Plane, tmp_path: Path) -> Iterator[Installer]:
    """The command line in a cluster without our operator; our definitions may be left from before."""
    folder = tmp_path / "work"
    folder.mkdir()
    made = Installer(Cli(tmp_path / "home", folder), cluster)
    yield made
    made("uninstall", "--keep-crds")


@pytest.fixture
def nothing(bireme: Installer) -> None:
    """Makes sure that our definitions are not in the cluster either."""
    bireme("uninstall", "--yes")


class Installer:
    """Bireme's command line, in front of a cluster."""

    _count = 0

    def __init__(self, cli: Cli, cluster: Plane) -> None:
        # Without a controller manager a namespace never goes, so each test has one of its own.
        Installer._count += 1
        self.namespace = f"bireme-{Installer._count}"
        self._cli, self._cluster = cli, cluster

    def __call__(self, *words: str) -> Done:
        given = ("--namespace", self.namespace, "--kubeconfig", str(self._cluster.kubeconfig))
        return self._cli(*words, *given)

    def outcomes(self, *words: str) -> dict[str, str]:
        """What became of each object."""
        done = self(*words, "--json")
        assert done.status == 0, done.err
        return {f"{one['kind']} {one['name']}": one["outcome"] for one in json.loads(done.out)["objects"]}


def definition(kind: str, **changes: object) -> str:
    """A definition as somebody else would have made it."""
    made: Json = crds.definition(kind)
    return json.dumps({**made, "metadata": {"name": made["metadata"]["name"]}, **changes})


# --- Installing -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("nothing")
def test_everything_is_created_then_unchanged(bireme: Installer, cluster: Plane) -> None:
    first = bireme("install", *NAMED)
    again = bireme.outcomes("install", *NAMED)

    assert first.status == 0, first.err
    assert "created   CustomResourceDefinition tfjobs.kubeflow.org\n" in first.out
    assert f"created   Deployment bireme-operator in namespace {bireme.namespace}\n" in first.out
    assert set(again.values()) == {"unchanged"}
    assert len(again) == len(first.out.splitlines()) == 17
    cluster("create", "--dry-run=server", "-f", "-", stdin=JAXJOB)


@pytest.mark.usefixtures("nothing")
def test_an_operator_without_an_image_is_refused_before_anything_is_made(
    bireme: Installer, cluster: Plane
) -> None:
    done = bireme("install")

    assert done.status == 2
    assert "--image" in done.err
    assert "docker build -t " in done.err
    assert "docker push " in done.err
    assert done.out == ""
    assert "tfjobs" not in cluster("get", "crds", "-o", "name")


def test_an_installation_that_is_repeated_keeps_its_image(bireme: Installer, cluster: Plane) -> None:
    bireme("install", *NAMED)

    again = bireme.outcomes("install", "--no-wait", "--kind", "jaxjob")

    assert again["Deployment bireme-operator"] == "changed"
    deployment = cluster.object("deployment", "bireme-operator", "-n", bireme.namespace)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == IMAGE
    assert "--kind" in container["args"]


def test_another_image_changes_the_deployment_alone(bireme: Installer) -> None:
    bireme("install", *NAMED)

    outcomes = bireme.outcomes("install", "--image", "registry.example/operator:2", "--no-wait")

    changed = [name for name, outcome in outcomes.items() if outcome == "changed"]
    assert changed == ["Deployment bireme-operator"]


@pytest.mark.usefixtures("nothing")
def test_a_dry_run_changes_nothing(bireme: Installer, cluster: Plane) -> None:
    done = bireme("install", *NAMED, "--dry-run")

    assert done.status == 0, done.err
    assert "created   Deployment bireme-operator" in done.out
    assert all(line.endswith("(dry run)") for line in done.out.splitlines())
    assert "tfjobs" not in cluster("get", "crds", "-o", "name")
    bireme("install", *NAMED)
    outcomes = bireme.outcomes("install", "--dry-run", "--image", "other", "--no-wait")
    assert outcomes["Deployment bireme-operator"] == "changed"
    assert set(bireme.outcomes("install", *NAMED).values()) == {"unchanged"}


@pytest.mark.usefixtures("nothing")
def test_definitions_alone(bireme: Installer, cluster: Plane) -> None:
    outcomes = bireme.outcomes("install", "--crds-only")

    assert list(outcomes) == [
        f"CustomResourceDefinition {crds.definition_name(kind)}" for kind in kinds.SERVED
    ]
    assert bireme.namespace not in cluster("get", "namespaces", "-o", "name")


# --- Others in the way ------------------------------------------------------------------------------------


def test_a_running_operator_of_kubeflow_is_not_fought(bireme: Installer, cluster: Plane) -> None:
    cluster("create", "-f", "-", stdin=json.dumps(OPERATOR))
    try:
        done = bireme("install", *NAMED, "--adopt")
        cluster("scale", "deployment", "training-operator", "--replicas", "0")
        asleep = bireme("install", "--crds-only")
    finally:
        cluster("delete", "deployment", "training-operator")

    assert done.status == 2
    assert "Kubeflow's training-operator runs in namespace default" in done.err
    assert "kubectl -n default scale deployment training-operator --replicas 0" in done.err
    assert done.out == ""
    assert asleep.status == 0, asleep.err


def test_a_webhook_that_was_left_behind_is_named(bireme: Installer, cluster: Plane) -> None:
    cluster("create", "-f", "-", stdin=json.dumps(WEBHOOK))
    try:
        done = bireme("install", *NAMED)
    finally:
        cluster("delete", "validatingwebhookconfiguration", conflicts.WEBHOOK)

    assert done.status == 2
    assert f"kubectl delete validatingwebhookconfiguration {conflicts.WEBHOOK}" in done.err


@pytest.mark.usefixtures("nothing")
def test_definitions_of_others_are_taken_over_only_when_asked(bireme: Installer, cluster: Plane) -> None:
    cluster("create", "-f", "-", stdin=definition("JAXJob"))
    cluster("wait", "--for", "condition=Established", "crd/jaxjobs.kubeflow.org")
    cluster("create", "-f", "-", stdin=JAXJOB)

    refused = bireme("install", *NAMED)
    kept = bireme.outcomes("uninstall")
    adopted = bireme.outcomes("install", *NAMED, "--adopt")

    assert refused.status == 2
    assert "jaxjobs.kubeflow.org exist and are not managed by Bireme" in refused.err
    assert "bireme install --adopt" in refused.err
    assert kept["CustomResourceDefinition jaxjobs.kubeflow.org"] == "kept"
    assert adopted["CustomResourceDefinition jaxjobs.kubeflow.org"] == "changed"
    assert cluster.object("jaxjob", "mnist")["spec"]["runPolicy"] == {}


@pytest.mark.usefixtures("nothing")
def test_what_mpijobs_are_stored_as_is_kept(bireme: Installer, cluster: Plane) -> None:
    made: Json = crds.definition("MPIJob", "v2beta1")
    spec = {**made["spec"], "versions": [one for one in made["spec"]["versions"] if one["storage"]]}
    cluster("create", "-f", "-", stdin=definition("MPIJob", spec=spec))

    bireme("install", *NAMED, "--adopt")

    versions = cluster.object("crd", "mpijobs.kubeflow.org")["spec"]["versions"]
    assert sorted(one["name"] for one in versions) == ["v1", "v1alpha2", "v2beta1"]
    assert [one["name"] for one in versions if one["storage"]] == ["v2beta1"]


def test_a_field_that_somebody_else_set_is_not_fought_over(bireme: Installer, cluster: Plane) -> None:
    bireme("install", *NAMED)
    where = ("-n", bireme.namespace, "deployment/bireme-operator")
    cluster("set", "image", *where, "operator=theirs")

    refused = bireme("install", *NAMED)
    adopted = bireme.outcomes("install", *NAMED, "--adopt")

    assert refused.status == 2
    assert "another manager has set fields of Deployment bireme-operator" in refused.err
    assert adopted["Deployment bireme-operator"] == "changed"


def test_two_operators_of_ours_are_refused(bireme: Installer, cluster: Plane) -> None:
    bireme("install", *NAMED)
    first, bireme.namespace = bireme.namespace, "elsewhere"

    done = bireme("install", *NAMED)
    bireme.namespace = first

    assert done.status == 2
    assert f"bireme install --namespace {first}" in done.err


def test_an_object_that_somebody_else_made_is_not_changed(bireme: Installer, cluster: Plane) -> None:
    role = {"verb": "get", "resource": "pods"}
    cluster(
        "create", "clusterrole", "bireme-operator", *(f"--{name}={value}" for name, value in role.items())
    )
    before = cluster.object("clusterrole", "bireme-operator")
    try:
        refused = bireme("install", *NAMED)
        after = cluster.object("clusterrole", "bireme-operator")
        kept = bireme.outcomes("uninstall", "--keep-crds")
    finally:
        cluster("delete", "clusterrole", "bireme-operator")

    assert refused.status == 2
    assert "ClusterRole bireme-operator exists and is not managed by Bireme" in refused.err
    assert after == before
    assert kept["ClusterRole bireme-operator"] == "kept"


def test_the_kinds_and_the_network_policy_are_the_administrator_s_choice(
    bireme: Installer, cluster: Plane
) -> None:
    wrong = bireme("install", *NAMED, "--kind", "SparkJob")
    done = bireme.outcomes("install", *NAMED, "--kind", "jaxjob", "--network-policy")

    assert wrong.status == 2
    assert "SparkJob is not a kind that the operator serves" in wrong.err
    assert done["NetworkPolicy bireme-operator"] == "created"
    assert bireme.outcomes("install", *NAMED, "--kind", "jaxjob")["NetworkPolicy bireme-operator"] == "kept"
    where = f"system:serviceaccount:{bireme.namespace}:bireme-operator"
    asked = ("auth", "can-i", "-A", "--as", where)
    assert cluster.run(*asked, "get", "jaxjobs.kubeflow.org").stdout.strip() == "yes"
    for denied in (
        ["get", "secrets"],
        ["create", "pods", "--subresource=exec"],
        ["get", "mpijobs.kubeflow.org"],
    ):
        assert cluster.run(*asked, *denied).stdout.strip() == "no", denied
    assert bireme.outcomes("uninstall", "--keep-crds")["NetworkPolicy bireme-operator"] == "deleted"


# --- Uninstalling -----------------------------------------------------------------------------------------


def test_uninstalling_leaves_nothing_of_ours(bireme: Installer, cluster: Plane) -> None:
    bireme("install", *NAMED)

    done = bireme("uninstall")

    assert done.status == 0, done.err
    assert "deleted   Deployment bireme-operator" in done.out
    for resources in ("crds", "clusterroles", "clusterrolebindings"):
        assert cluster("get", resources, "-l", "app.kubernetes.io/part-of=bireme", "-o", "name") == ""
    assert set(bireme.outcomes("uninstall").values()) <= {"absent", "deleted"}


def test_jobs_are_not_deleted_unasked(bireme: Installer, cluster: Plane) -> None:
    bireme("install", *NAMED)
    cluster("create", "-f", "-", stdin=JAXJOB)

    refused = bireme("uninstall")
    there = cluster.run("get", "jaxjob", "mnist").returncode
    kept = bireme.outcomes("uninstall", "--keep-crds")
    left = cluster.run("get", "jaxjob", "mnist").returncode
    agreed = bireme("uninstall", "--yes")

    assert refused.status == 2
    assert "jaxjob mnist (namespace default)" in refused.err
    assert "bireme uninstall --yes" in refused.err
    assert (there, left) == (0, 0)
    assert "CustomResourceDefinition jaxjobs.kubeflow.org" not in kept
    assert "deleted   CustomResourceDefinition jaxjobs.kubeflow.org" in agreed.out
    assert cluster.run("get", "jaxjob", "mnist").returncode == 1
