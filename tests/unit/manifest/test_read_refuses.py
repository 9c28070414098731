"""Manifests that no job can be made of are refused with everything that is wrong, each at its place."""

from __future__ import annotations

import pytest

from bireme.errors import BadManifest
from bireme.manifest.read import from_manifest, read
from bireme.manifest.text.source import read_text
from tests.unit.manifest.samples import (
    DEPLOYMENT,
    JAXJOB,
    JOB,
    MPIJOB,
    MPIJOB_V2BETA1,
    PADDLEJOB,
    PYTORCHJOB,
    TFJOB,
    XGBOOSTJOB,
    reading,
    refusal,
    warnings,
)

TEMPLATE = "{spec: {containers: [{name: tensorflow, image: train}]}}"


# --- Which kind it is -------------------------------------------------------------------------------------


def test_an_unknown_kind_names_the_known_ones_and_the_nearest() -> None:
    assert refusal(TFJOB.replace("kind: TFJob", "kind: TFJobs")) == [
        'job.yaml:2:7 kind: Unsupported value: "TFJobs": supported values: "PyTorchJob", "TFJob", "MPIJob", '
        '"JAXJob", "XGBoostJob", "PaddleJob", "MXJob", "Job" (did you mean TFJob?)'
    ]


def test_an_unknown_version_names_the_served_ones() -> None:
    assert refusal(MPIJOB.replace("kubeflow.org/v1", "kubeflow.org/v1alpha1")) == [
        'job.yaml:1:13 apiVersion: Unsupported value: "kubeflow.org/v1alpha1": supported values: '
        '"kubeflow.org/v2beta1", "kubeflow.org/v1", "kubeflow.org/v1alpha2"'
    ]


def test_a_version_or_kind_that_is_missing_is_asked_for() -> None:
    assert refusal("kind: JAXJob\nmetadata: {name: x}\n") == [
        "job.yaml:1:1 apiVersion: is missing (write `apiVersion: kubeflow.org/v1`)",
        "job.yaml:1:1 spec: is missing: it holds jaxReplicaSpecs",
    ]
    assert refusal("apiVersion: batch/v1\nmetadata: {name: x}\n")[0].startswith(
        "job.yaml:1:1 kind: is missing (one of PyTorchJob"
    )


def test_a_document_of_no_known_shape_is_refused() -> None:
    assert refusal("scritp: train.py\n") == [
        "job.yaml:1:9 scritp: this is neither a manifest with apiVersion and kind nor a short form with "
        'script (did you mean script instead of "scritp"?)'
    ]
    assert refusal("- a\n") == ["job.yaml:1:1: wanted a mapping, found a list"]


def test_documents_without_a_job_are_refused() -> None:
    assert refusal(DEPLOYMENT) == [
        "job.yaml: there is no job in it, only: Deployment "
        "(a job is one of PyTorchJob, TFJob, MPIJob, JAXJob, XGBoostJob, PaddleJob, MXJob, Job)"
    ]
    with pytest.raises(BadManifest, match="there is no job"):
        read([])


def test_two_jobs_of_one_name_are_refused() -> None:
    assert refusal(f"{JAXJOB}---\n{JAXJOB}") == [
        'job.yaml:15:11 metadata: there are two JAXJobs named "mnist"'
    ]


# --- Names ------------------------------------------------------------------------------------------------


def test_a_name_is_required() -> None:
    assert refusal(JAXJOB.replace("{name: mnist}", "{}")) == [
        "job.yaml:3:1 metadata.name: is missing: name or generateName is required"
    ]
    assert refusal(JAXJOB.replace("metadata: {name: mnist}\n", "")) == [
        "job.yaml:1:1 metadata: is missing: the job needs a name (write `metadata: {name: my-job}`)"
    ]


def test_a_name_must_be_a_label() -> None:
    (diagnostic,) = refusal(JAXJOB.replace("name: mnist", "name: My_Job"))

    assert diagnostic.startswith(
        'job.yaml:3:18 metadata.name: Invalid value: "My_Job": should match: a DNS-1035 label must consist of'
    )
    assert diagnostic.endswith("(such as my-job)")


def test_a_name_that_makes_an_invalid_pod_name_says_which() -> None:
    name = "a" * 55

    (diagnostic,) = refusal(JAXJOB.replace("name: mnist", f"name: {name}"))

    assert f"the pod name {name}-worker-1 would be invalid: it has 64 characters" in diagnostic
    assert diagnostic.endswith("(shorten it by 1)")
    assert reading(JAXJOB.replace("name: mnist", f"name: {name[1:]}")).jobs


def test_the_longest_pod_name_counts() -> None:
    name = "a" * 53

    (diagnostic,) = refusal(
        JAXJOB.replace("name: mnist", f"name: {name}").replace("replicas: 2", "replicas: 5000")
    )

    assert f"{name}-worker-4999 would be invalid" in diagnostic


def test_a_namespace_must_be_a_label() -> None:
    (diagnostic,) = refusal(JAXJOB.replace("{name: mnist}", "{name: mnist, namespace: ../x}"))

    assert diagnostic.startswith(
        'job.yaml:3:36 metadata.namespace: Invalid value: "../x": a lowercase RFC 1123'
    )


# --- Roles ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "field", "sentence"),
    [
        (PYTORCHJOB, "pytorchReplicaSpecs", "is missing"),
        (TFJOB, "tfReplicaSpecs", "is missing"),
        (MPIJOB, "mpiReplicaSpecs", "Required value: MPIReplicaSpecs is not valid"),
        (MPIJOB_V2BETA1, "mpiReplicaSpecs", "Required value: must have replica specs"),
    ],
    ids=["pytorch", "tensorflow", "mpi", "mpi-v2beta1"],
)
def test_roles_are_required(text: str, field: str, sentence: str) -> None:
    without = text[: text.index(f"  {field}:")]

    assert f"spec.{field}: {sentence}" in refusal(f"{without}  {field}: {{}}\n")[0]
    assert f"spec.{field}: {sentence}" in refusal(f"{without}  x: 1\n")[0]


def test_an_unknown_role_names_the_supported_ones() -> None:
    assert refusal(PYTORCHJOB.replace("    Worker:", "    Wroker:")) == [
        'job.yaml:25:7 spec.pytorchReplicaSpecs[Wroker]: Unsupported value: "Wroker": supported values: '
        '"Master", "Worker" (did you mean Worker?)'
    ]


def test_a_role_may_not_be_there_twice() -> None:
    (diagnostic,) = refusal(XGBOOSTJOB + "    WORKER: {template: *template}\n")

    assert 'Duplicate value: "WORKER": Worker is there already' in diagnostic


@pytest.mark.parametrize("number", ["-1", "1.5", '"2"', "100001"])
def test_a_count_of_replicas_must_be_possible(number: str) -> None:
    (diagnostic,) = refusal(JAXJOB.replace("replicas: 2", f"replicas: {number}"))

    assert diagnostic.startswith("job.yaml:7:17 spec.jaxReplicaSpecs[Worker].replicas: ")


def test_two_chiefs_are_refused() -> None:
    assert refusal(TFJOB + "    Master: {template: *template}\n") == [
        "job.yaml:7:5 spec.tfReplicaSpecs: Forbidden: must not have more than 1 Chief or Master role "
        "(keep one of Chief and Master)"
    ]


def test_problems_that_a_kind_finds_have_their_place() -> None:
    assert refusal(PYTORCHJOB.replace("    Master:\n", "    master:\n      replicas: 2\n")) == [
        "job.yaml:20:17 spec.pytorchReplicaSpecs[Master].replicas: Forbidden: must be 1 (write `replicas: 1`)"
    ]
    (diagnostic,) = refusal(
        XGBOOSTJOB.replace("    Master:", "    Worker:").replace("    Worker: {rep", "    x: {rep")
    )
    assert 'Unsupported value: "x"' in diagnostic


def test_a_bad_restart_policy_names_the_choices() -> None:
    (diagnostic,) = refusal(PYTORCHJOB.replace("ExitCode", "exitcode"))

    assert diagnostic.endswith(
        "restartPolicy: must be one of Always, OnFailure, Never, ExitCode, "
        'found "exitcode" (did you mean ExitCode?)'
    )


def test_a_batch_jobs_restart_policy_is_never_or_on_failure() -> None:
    assert refusal(JOB.replace("restartPolicy: Never", "restartPolicy: Always")) == [
        "job.yaml:14:22 spec.template.spec.restartPolicy: Unsupported value: "
        '"Always": supported values: "OnFailure", "Never"'
    ]
    (diagnostic,) = refusal(JOB.replace("      restartPolicy: Never\n", ""))
    assert 'restartPolicy: Required value: valid values: "OnFailure", "Never"' in diagnostic


def test_a_role_without_containers_is_refused_in_the_words_of_its_kind() -> None:
    assert refusal(JAXJOB[: JAXJOB.index("          containers")] + "          containers: []\n") == [
        "job.yaml:10:23 spec.jaxReplicaSpecs[Worker].template.spec.containers: is missing"
    ]
    bare = MPIJOB[: MPIJOB.index("    Worker")] + "    Worker: {replicas: 1}\n"
    assert refusal(bare) == [
        "job.yaml:8:5 spec.mpiReplicaSpecs[Worker].template: Required value: "
        "MPIReplicaSpecs is not valid: containers definition expected in Worker"
    ]
    assert "must define at least one container" in refusal(bare.replace("/v1", "/v2beta1"))[0]
    (diagnostic,) = refusal("apiVersion: batch/v1\nkind: Job\nmetadata: {name: x}\nspec: {template: null}\n")
    assert diagnostic == "job.yaml:4:18 spec.template: is missing"


def test_an_image_is_required() -> None:
    assert refusal(PADDLEJOB.replace(", image: train", "")) == [
        "job.yaml:7:58 spec.paddleReplicaSpecs[Worker].template.spec.containers[0].image: is missing"
    ]
    assert (
        "Image is undefined in the container of Launcher"
        in refusal(MPIJOB.replace("image: train, c", "c"))[0]
    )


# --- Policies, options and annotations --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "diagnostic"),
    [
        ("backoffLimit: 4", "backoffLimit: -1", "spec.runPolicy.backoffLimit: must be at least 0, found -1"),
        ("cleanPodPolicy: All", "cleanPodPolicy: Some", "must be one of All, Running, None"),
        ("suspend: true", "suspend: maybe", "spec.runPolicy.suspend: wanted true or false"),
        (
            "training-operator",
            "x",
            'Unsupported value: "kubeflow.org/x": supported values: "kubeflow.org/training',
        ),
        ("{cpu: 2}", "{cpu: x}", "spec.runPolicy.schedulingPolicy.minResources.cpu: 'x' is not a quantity"),
        ("nprocPerNode: 2", "nprocPerNode: [2]", "spec.nprocPerNode: wanted a text, found a list"),
        ("nprocPerNode: 2", "elasticPolicy: 2", "spec.elasticPolicy: wanted a mapping, found the number 2"),
        (
            "nprocPerNode: 2",
            "elasticPolicy: {standalone: 2}",
            "spec.elasticPolicy.standalone: wanted true or false",
        ),
        ("nprocPerNode: 2", "elasticPolicy: {rdzvConf: [{key: a}]}", "rdzvConf[0].value: is missing"),
        (
            "nprocPerNode: 2",
            "elasticPolicy: {metrics: [1]}",
            "metrics[0]: wanted a mapping, found the number 1",
        ),
        (
            "restart: gang",
            "restart: all",
            "metadata.annotations[bireme.io/restart]: must be one of replica, gang",
        ),
        ('limit: "5"', "limit: many", 'wanted a whole number such as "20", found "many"'),
        (
            "t: torchrun",
            "t: horovodrun",
            "metadata.annotations[bireme.io/environment]: must be one of torchrun",
        ),
    ],
)
def test_bad_policies_options_and_annotations(before: str, after: str, diagnostic: str) -> None:
    assert diagnostic in refusal(PYTORCHJOB.replace(before, after))[0]


def test_more_replicas_than_were_ever_tried_are_refused() -> None:
    (diagnostic,) = refusal(PYTORCHJOB.replace("replicas: 3", "replicas: 5000"))

    assert "spec: the job has 5001 replicas; at most 5000 are supported" in diagnostic
    assert reading(PYTORCHJOB.replace("replicas: 3", "replicas: 4999")).jobs


def test_more_completions_than_any_job_has_are_refused() -> None:
    (diagnostic,) = refusal(JOB.replace("completions: 4", "completions: 2000000"))

    assert "spec: the job has 2000000 replicas; at most 1000000 are supported" in diagnostic


# --- All at once ------------------------------------------------------------------------------------------


def test_all_diagnostics_of_all_documents_come_at_once() -> None:
    first = JAXJOB.replace("replicas: 2", "replicas: -2").replace("name: mnist", "name: A")
    second = "script: train.py\nworkers: 0\nmemory: 1 GB\n"

    places = [diagnostic.split(" ")[0] for diagnostic in refusal(f"{first}---\n{second}---\nkind: Foo\n")]

    assert places == ["job.yaml:3:18", "job.yaml:7:17", "job.yaml:14:10", "job.yaml:15:9", "job.yaml:17:7"]


def test_a_misspelt_field_is_named_beside_what_is_missing() -> None:
    text = JAXJOB.replace("containers:", "conatiners:")

    with pytest.raises(BadManifest) as caught:
        reading(text)

    assert str(caught.value).splitlines() == [
        "job.yaml:9:9 spec.jaxReplicaSpecs[Worker].template.spec.containers: is missing",
        'job.yaml:10:11 spec.jaxReplicaSpecs[Worker].template.spec.conatiners: unknown field "conatiners", '
        'did you mean "containers"?',
    ]


def test_a_misspelt_field_that_may_be_absent_is_warned_about() -> None:
    (warning,) = warnings(JAXJOB.replace("      replicas: 2", "      restartpolicy: Never"))

    assert warning.endswith('unknown field "restartpolicy", did you mean "restartPolicy"?')


def test_a_message_has_at_most_twelve_lines() -> None:
    text = JAXJOB.replace("ports:", "env: [" + ", ".join(["{}"] * 50) + "], ports:")

    with pytest.raises(BadManifest) as caught:
        reading(text)

    assert len(caught.value.diagnostics) == 50
    assert len(str(caught.value).splitlines()) <= 12


# --- Plain data -------------------------------------------------------------------------------------------


def test_plain_data_is_read_like_text() -> None:
    manifest = read_text(JAXJOB)[0].root.plain()

    (found,) = from_manifest(manifest, script="train.py").jobs

    assert found.job == reading(JAXJOB).jobs[0].job
    assert found.manifest == manifest
    assert found.script == "train.py"


def test_plain_data_that_no_manifest_can_hold_is_refused() -> None:
    endless: dict[str, object] = {}
    endless["a"] = endless

    for manifest, text in (
        ({"a": {1: 2}}, "wanted texts as keys, found 1"),
        ({"a": [object()]}, "<manifest>:?[0-9:]* a\\[0\\]: a object is not something"),
        (endless, "more than 100 levels"),
        ({"kind": "Foo"}, "<manifest> kind: Unsupported value"),
    ):
        with pytest.raises(BadManifest, match=text):
            from_manifest(manifest)


@pytest.mark.parametrize("version", ["kubeflow.org/v1beta2", "kubeflow.org/v3", "v1", ""])
def test_a_wrong_api_version_hides_no_other_errors(version: str) -> None:
    text = MPIJOB.replace("kubeflow.org/v1", version).replace("slotsPerWorker: 2", "slotsPerWorker: two")
    if not version:
        text = text.partition("\n")[2]

    diagnostics = refusal(text.replace("replicas: 2,", "replicas: -2,"))

    assert [one.partition(" ")[2].partition(":")[0] for one in diagnostics] == [
        "apiVersion",
        "spec.slotsPerWorker",
        "spec.mpiReplicaSpecs[Worker].replicas",
    ]


def test_a_wrong_api_version_makes_no_error_of_what_some_version_allows() -> None:
    # Only v1 takes a worker's restart policy ExitCode.
    text = MPIJOB.replace("kubeflow.org/v1", "kubeflow.org/v9").replace(
        "{replicas: 2,", "{replicas: 2, restartPolicy: ExitCode,"
    )

    (diagnostic,) = refusal(text)

    assert 'apiVersion: Unsupported value: "kubeflow.org/v9"' in diagnostic
