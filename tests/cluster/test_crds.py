"""A real API server serves our definitions: it takes every good job, and refuses bad ones itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from bireme import kinds
from bireme.backends.kubernetes.client.api import ApiError
from bireme.operator.install import crds
from tests.cluster.control_plane import Plane, plane
from tests.cluster.harness import Json
from tests.unit.manifest.samples import JAXJOB, KINDS, MPIJOB, MPIJOB_OF_2020, TFJOB_OF_A_TUTORIAL
from tests.unit.operator.bad_jobs import BAD, MPIJOB_V1ALPHA2, PYTORCH, Bad

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "deploy" / "crds").glob("*jobs*.yaml"))
EXAMPLES = [
    path for path in sorted((ROOT / "examples").rglob("*.yaml")) if "kubeflow.org/" in path.read_text()
]
SAMPLES = {
    **{name: text for name, text in KINDS.items() if name not in ("batch", "pytorch")},
    "pytorch": PYTORCH,
    "tutorial": TFJOB_OF_A_TUTORIAL,
    "mpi-2020": MPIJOB_OF_2020,
}
VERSIONS = crds.versions("MPIJob")


@pytest.fixture(scope="module")
def served() -> Iterator[Plane]:
    """An API server to which the definitions were applied as kubectl usually does it."""
    with plane("crds") as made:
        for file in FILES:
            made("apply", "-f", str(file))
        for kind in kinds.SERVED:
            made("wait", "--for", "condition=Established", f"crd/{crds.definition_name(kind)}")
        yield made


def mpijob(version: str, name: str) -> str:
    named = MPIJOB.replace("name: mnist", f"name: {name}")
    return named.replace("kubeflow.org/v1", f"kubeflow.org/{version}")


# --- Applying ---------------------------------------------------------------------------------------------


def test_there_is_a_file_for_every_kind() -> None:
    assert len(FILES) == len(kinds.SERVED)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_definition_can_be_applied_from_either_side(served: Plane, file: Path) -> None:
    assert "unchanged" in served("apply", "-f", str(file))
    told = served("apply", "--server-side", "--force-conflicts", "-f", str(file))
    assert "serverside-applied" in told

    name = yaml.safe_load(file.read_text())["metadata"]["name"]
    conditions = served.object("crd", name)["status"]["conditions"]
    assert "NonStructuralSchema" not in {one["type"] for one in conditions}


def test_kustomize_applies_everything(served: Plane) -> None:
    told = served("apply", "--dry-run=server", "-k", str(ROOT / "deploy" / "crds"))

    assert len(told.splitlines()) == len(FILES)


# --- Good jobs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_example_is_taken(served: Plane, path: Path) -> None:
    assert "created" in served("create", "--dry-run=server", "-f", str(path))


@pytest.mark.parametrize("text", SAMPLES.values(), ids=SAMPLES)
def test_every_sample_is_taken(served: Plane, text: str) -> None:
    assert served.tried(text)["metadata"]["uid"]


def test_a_pod_template_is_kept_as_it_was_written(served: Plane) -> None:
    template: Json = {
        "metadata": {"name": "x", "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["e.f/g"]},
        "spec": {
            "nodeSelector": {"disk": "ssd"},
            "fieldOfTomorrow": {"x": [1, 2.5, None]},
            "tolerations": [{"operator": "Exists"}],
            "containers": [
                {
                    "name": "jax",
                    "image": "x",
                    "command": [""],
                    "env": [
                        {"name": "A", "value": "1"},
                        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    ],
                    "securityContext": {"privileged": True},
                    "resources": {
                        "limits": {"cpu": 4, "memory": "1.5Gi", "nvidia.com/gpu": "1"},
                        "claims": [],
                    },
                    "ports": [{"name": "p", "containerPort": 1, "hostPort": 2}],
                }
            ],
        },
    }
    job: Json = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "JAXJob",
        "metadata": {"name": "kept"},
        "spec": {"jaxReplicaSpecs": {"worker": {"template": template}}},
    }

    served("create", "-f", "-", stdin=json.dumps(job))

    kept = served.object("jaxjob", "kept")
    assert kept["spec"] == {**job["spec"], "runPolicy": {}}


@pytest.mark.parametrize("written", ["runPolicy: null", "runPolicy: {}", "runPolicy: {backoffLimit: 1}", ""])
def test_the_run_policy_is_always_there(served: Plane, written: str) -> None:
    text = JAXJOB.replace("spec:\n  jax", f"spec:\n  {written}\n  jax")

    assert isinstance(served.tried(text)["spec"]["runPolicy"], dict)


def test_scaling_and_columns(served: Plane) -> None:
    served("create", "-f", "-", stdin=PYTORCH.replace("name: mnist", "name: scaled"))
    condition = {"type": "Running", "status": "True", "reason": "PyTorchJobRunning", "message": "It runs."}
    status = {
        "conditions": [{"type": "Created", "status": "True"}, condition],
        "replicaStatuses": {"Worker": {"active": 2, "selector": "a=b"}},
        "bireme": {"attempt": 3, "sightings": {"x": {"uid": "y"}}},
        "unknown": 1,
    }

    served("scale", "pytorchjob", "scaled", "--replicas", "5")
    patch = json.dumps({"status": status})
    served("patch", "pytorchjob", "scaled", "--subresource", "status", "--type", "merge", "-p", patch)

    found = served.object("pytorchjob", "scaled")
    del status["unknown"]
    assert found["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == 5
    assert found["status"] == status
    narrow, wide = (served("get", "pytorchjobs", *words).splitlines() for words in ([], ["-o", "wide"]))
    assert narrow[0].split() == ["NAME", "STATE", "AGE"]
    assert next(line for line in narrow if line.startswith("scaled")).split()[1] == "Running"
    assert next(line for line in wide if line.startswith("scaled")).split()[3:] == ["2", "3", "It", "runs."]


# --- Bad jobs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_job_is_refused_by_the_api_server(served: Plane, bad: Bad) -> None:
    with pytest.raises(ApiError) as caught:
        served.tried(bad.manifest)

    assert bad.served in caught.value.message


@pytest.mark.parametrize(
    ("patch", "sentence"),
    [
        ({"schedulingPolicy": {"queue": "other"}}, "spec.runPolicy.schedulingPolicy.queue is immutable"),
        ({"managedBy": "kueue.x-k8s.io/multikueue"}, "spec.runPolicy.managedBy is immutable"),
        ({"managedBy": None}, "spec.runPolicy.managedBy is immutable"),
    ],
)
def test_what_may_not_change_is_kept(served: Plane, patch: Json, sentence: str) -> None:
    served("apply", "-f", "-", stdin=PYTORCH.replace("name: mnist", "name: firm"))

    words = (
        "patch",
        "pytorchjob",
        "firm",
        "--type",
        "merge",
        "-p",
        json.dumps({"spec": {"runPolicy": patch}}),
    )

    assert sentence in served.refused(*words)
    served(*words[:-1], json.dumps({"spec": {"runPolicy": {"suspend": False}}}))


# --- The versions of MPIJob -------------------------------------------------------------------------------


@pytest.mark.parametrize("apply", [["create"], ["apply"], ["apply", "--server-side"]], ids=" ".join)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_job_keeps_the_version_it_was_created_with(served: Plane, version: str, apply: list[str]) -> None:
    name = f"kept-{version}-{len(' '.join(apply))}"

    served(*apply, "-f", "-", stdin=mpijob(version, name))

    for other in VERSIONS:
        found = served.object(f"mpijobs.{other}.kubeflow.org", name)
        assert found["apiVersion"] == f"kubeflow.org/{other}"
        assert found["spec"]["servedVersion"] == version


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_survives_changes_through_the_others(served: Plane, version: str) -> None:
    name = f"changed-{version}"
    served("apply", "-f", "-", stdin=mpijob(version, name))

    for number, other in enumerate(VERSIONS, start=3):
        resource = f"mpijobs.{other}.kubeflow.org"
        spec = json.dumps({"spec": {"slotsPerWorker": number}})
        status = json.dumps({"status": {"startTime": f"2024-01-01T00:00:0{number}Z"}})
        served("patch", resource, name, "--type", "merge", "-p", spec)
        served("patch", resource, name, "--subresource", "status", "--type", "merge", "-p", status)
        whole = served.object(resource, name)
        whole["spec"]["slotsPerWorker"] = number + 10
        served("replace", "-f", "-", stdin=json.dumps(whole))

        found = served.object("mpijob", name)
        assert found["spec"]["servedVersion"] == version
        assert found["spec"]["slotsPerWorker"] == number + 10


def test_a_job_cannot_be_replaced_by_one_of_another_version(served: Plane) -> None:
    served("create", "-f", "-", stdin=mpijob("v2beta1", "replaced"))

    told = served.refused("replace", "-f", "-", stdin=mpijob("v1", "replaced"))

    assert "a job keeps the version that it was created with" in told


def test_rules_follow_the_version_whichever_is_asked(served: Plane) -> None:
    served("create", "-f", "-", stdin=MPIJOB_V1ALPHA2.replace("name: mnist", "name: ruled"))

    words = ("patch", "mpijobs.v1.kubeflow.org", "ruled", "--type", "merge", "-p")

    assert "must be greater than or equal to 1" in served.refused(*words, '{"spec": {"slotsPerWorker": 0}}')
