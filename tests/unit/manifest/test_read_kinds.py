"""Manifests of every kind become jobs, with the defaults of their kind."""

from __future__ import annotations

import pytest

from bireme.manifest.text.source import read_text
from bireme.model.job import (
    CleanPods,
    Naming,
    Restart,
    RestartScope,
    RunPolicy,
    Scheduling,
    replica_ids,
)
from bireme.model.pods import Mount, Resources, Volume, VolumeClaim
from tests.unit import build
from tests.unit.manifest.samples import (
    DEPLOYMENT,
    FOUND,
    JAXJOB,
    JOB,
    JOB_WITH_A_CLAIM,
    JOB_WITH_ARGUMENTS,
    KINDS,
    MPIJOB,
    MPIJOB_OF_2020,
    MPIJOB_V2BETA1,
    PADDLEJOB,
    POD,
    PYTORCHJOB,
    TFJOB,
    TFJOB_OF_A_TUTORIAL,
    XGBOOSTJOB,
    job_of,
    reading,
    role_of,
    warnings,
)


def names(text: str) -> list[str]:
    return [member.name for member in replica_ids(job_of(text))]


# --- Manifests that people wrote --------------------------------------------------------------------------


def test_the_first_container_trains_where_none_has_the_usual_name() -> None:
    role = role_of(TFJOB_OF_A_TUTORIAL)

    assert role.main == "mnist"
    assert role.replicas == 2
    assert role.restart is Restart.ON_FAILURE
    assert role.container.ports == {"tfjob-port": 2222}
    assert warnings(TFJOB_OF_A_TUTORIAL) == [
        "job.yaml:12:11 spec.tfReplicaSpecs[Worker].template.spec.containers: "
        'no container is named "tensorflow", so the first one, "mnist", trains'
    ]


def test_a_batch_job_with_a_claim() -> None:
    job = job_of(JOB_WITH_A_CLAIM)
    (role,) = job.roles

    assert job.kind == "Job"
    assert role.restart is Restart.RECREATE
    assert role.replicas == 1
    assert role.container.command == ("python", "/opt/app/train.py")
    assert role.container.limits == Resources(4000, 4 * 2**30, {"nvidia.com/gpu": 1})
    assert role.container.mounts == (Mount("dataset", "/mnt/data"),)
    assert role.pod.volumes == (Volume("dataset", VolumeClaim("data-pvc")),)
    assert job.policy.backoff_limit == 6
    assert names(JOB_WITH_A_CLAIM) == ["deeplearning-0"]


def test_a_batch_job_with_arguments_and_a_gpu() -> None:
    (role,) = job_of(JOB_WITH_ARGUMENTS).roles

    assert role.restart is Restart.ON_FAILURE
    assert role.container.command == ()
    assert role.container.args == ("--max_steps", "500")
    assert role.container.limits.gpus == 1
    assert role.pod.labels == {"app": "mnist-demo"}


def test_an_mpijob_of_v1alpha2_whose_workers_have_an_empty_command() -> None:
    job = job_of(MPIJOB_OF_2020)
    launcher, worker = job.roles

    assert (launcher.name, launcher.restart, launcher.naming) == ("launcher", Restart.ON_FAILURE, Naming.ROLE)
    assert launcher.container.args[:2] == ("-np", "2")
    assert worker.container.command == ()
    assert job.policy.clean_pods is CleanPods.RUNNING
    assert job.policy.backoff_limit == 6
    assert names(MPIJOB_OF_2020) == [
        "tensorflow-mnist-launcher",
        "tensorflow-mnist-worker-0",
        "tensorflow-mnist-worker-1",
    ]


def test_a_pod_alone_is_run_as_a_batch_job() -> None:
    job = job_of(POD)
    (role,) = job.roles

    assert (job.kind, job.name) == ("Job", "gpu-pod")
    assert role.restart is Restart.ON_FAILURE
    assert role.container.limits.gpus == 2
    assert warnings(POD) == ["job.yaml:2:1 kind: a Pod is run as a batch/v1 Job that has it as its template"]


def test_a_pod_beside_a_job_is_left_alone() -> None:
    read = reading(f"{POD}---\n{JAXJOB}")

    assert [each.job.kind for each in read.jobs] == ["JAXJob"]
    assert [each.text for each in read.warnings] == ["a Pod is not a job, so it is left alone"]


def test_other_objects_beside_a_job_are_left_alone() -> None:
    read = reading(f"{DEPLOYMENT}---\n{JAXJOB}")

    assert len(read.jobs) == 1
    assert [str(each) for each in read.warnings] == [
        "job.yaml:2:1 kind: a Deployment is not a job, so it is left alone"
    ]


# --- Every kind -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [*KINDS.values(), *FOUND.values()], ids=[*KINDS, *FOUND])
def test_every_manifest_keeps_its_raw_document_and_its_place(text: str) -> None:
    (found,) = reading(f"# a comment\n{text}").jobs

    assert (found.file, found.line, found.script) == ("job.yaml", 2, None)
    if found.manifest["kind"] != "Job" or "Pod" not in text:
        assert found.manifest == read_text(text)[0].root.plain()


def test_a_pytorchjob_in_full() -> None:
    job = job_of(PYTORCHJOB)
    master, worker = job.roles

    assert (job.name, job.namespace, job.labels) == ("mnist", "default", {"team": "vision"})
    assert (master.type, master.replicas, master.restart) == ("Master", 1, Restart.ON_FAILURE)
    assert (worker.type, worker.replicas, worker.restart) == ("Worker", 3, Restart.EXIT_CODE)
    assert master.container.ports == {"pytorchjob-port": 23456}
    assert job.unit is RestartScope.GANG
    assert job.torchrun_environment
    assert build.options(job)["nprocPerNode"] == "2"
    assert job.policy == RunPolicy(
        clean_pods=CleanPods.ALL,
        ttl=60,
        deadline=3600,
        backoff_limit=4,
        eviction_limit=5,
        suspend=True,
        managed_by="kubeflow.org/training-operator",
        scheduling=Scheduling(2, "q", "high", {"cpu": "2"}, 5),
    )


def test_defaults_of_a_pytorchjob() -> None:
    text = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: mnist, namespace: team-a}
spec:
  elasticPolicy: {minReplicas: 2, rdzvConf: [{key: a, value: b}]}
  pytorchReplicaSpecs:
    Worker: {replicas: 4, template: {spec: {containers: [{name: pytorch, image: train}]}}}
"""
    job = job_of(text)

    assert job.namespace == "team-a"
    assert job.unit is RestartScope.REPLICA
    assert not job.torchrun_environment
    assert job.policy == RunPolicy()
    assert build.options(job)["nprocPerNode"] == "auto"
    elastic = build.options(job)["elasticPolicy"]
    assert isinstance(elastic, dict)
    assert (elastic["minReplicas"], elastic["maxReplicas"]) == (2, 2)
    assert list(elastic["rdzvConf"]) == [{"key": "a", "value": "b"}]


def test_roles_of_a_tfjob_are_found_whatever_their_case() -> None:
    job = job_of(TFJOB)

    assert [role.type for role in job.roles] == ["Chief", "Evaluator", "PS", "Worker"]
    assert all(role.restart is Restart.NEVER for role in job.roles)
    assert build.options(job)["successPolicy"] == "AllWorkers"
    assert names(TFJOB)[-1] == "mnist-worker-1"


def test_a_port_of_the_usual_name_is_kept() -> None:
    assert role_of(JAXJOB).container.ports == {"jaxjob-port": 1234}


def test_an_xgboostjob() -> None:
    assert names(XGBOOSTJOB) == ["mnist-master-0", "mnist-worker-0", "mnist-worker-1"]
    assert role_of(XGBOOSTJOB, "master").container.ports == {"xgboostjob-port": 9999}


def test_a_paddlejob() -> None:
    assert role_of(PADDLEJOB).container.ports == {"master": 36543}
    assert role_of(PADDLEJOB).restart is Restart.ON_FAILURE


@pytest.mark.parametrize(
    ("text", "launcher"),
    [(MPIJOB, Restart.NEVER), (MPIJOB_V2BETA1, Restart.ON_FAILURE)],
    ids=["v1", "v2beta1"],
)
def test_an_mpijob_has_the_defaults_of_its_version(text: str, launcher: Restart) -> None:
    assert role_of(text, "launcher").restart is launcher
    assert role_of(text).restart is Restart.NEVER
    assert role_of(text).container.ports == {}
    assert build.options(job_of(text))["slotsPerWorker"] == 2
    assert warnings(text) == []


def test_a_batch_job_in_full() -> None:
    job = job_of(JOB)
    policy = job.policy

    assert job.name == "2024.sweep"
    assert (policy.backoff_limit, policy.deadline, policy.ttl, policy.suspend) == (3, 100, 10, True)
    assert job.total == 4
    assert build.options(job)["completionMode"] == "Indexed"


# --- What is accepted -------------------------------------------------------------------------------------


def test_several_documents_and_lists_are_read_together() -> None:
    listed = "apiVersion: v1\nkind: List\nitems:\n" + "".join(
        f"- {line}\n" if index == 0 else f"  {line}\n" for index, line in enumerate(JAXJOB.splitlines())
    )

    read = reading(f"{listed}---\n{MPIJOB}")

    assert [each.job.kind for each in read.jobs] == ["JAXJob", "MPIJob"]


def test_json_is_read_as_well() -> None:
    text = """\
{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"},
 "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}}}}
"""

    assert job_of(text).kind == "Job"


def test_a_generated_name_is_left_without_its_end() -> None:
    assert job_of(JAXJOB.replace("name: mnist", "generateName: mnist-")).name == "mnist"


def test_what_a_cluster_returned_is_read_without_warnings() -> None:
    text = JAXJOB.replace(
        "metadata: {name: mnist}",
        "metadata: {name: mnist, uid: u, resourceVersion: '1', generation: 1, managedFields: [], "
        "creationTimestamp: null}\nstatus: {conditions: []}",
    )

    assert warnings(text) == []


def test_unknown_fields_are_warned_about_with_the_nearest_name() -> None:
    text = PYTORCHJOB.replace("backoffLimit", "backOffLimits").replace("replicas: 3", "replica: 3")

    assert warnings(text) == [
        'job.yaml:11:5 spec.runPolicy.backOffLimits: unknown field "backOffLimits", '
        'did you mean "backoffLimit"?',
        'job.yaml:25:7 spec.pytorchReplicaSpecs[Worker].replica: unknown field "replica", '
        'did you mean "replicas"?',
    ]


def test_an_unknown_annotation_of_ours_is_warned_about() -> None:
    text = JAXJOB.replace("{name: mnist}", "{name: mnist, annotations: {bireme.io/restarts: gang, a.b/c: d}}")

    assert warnings(text) == [
        'job.yaml:3:39 metadata.annotations[bireme.io/restarts]: unknown annotation "bireme.io/restarts", '
        'did you mean "bireme.io/restart"?'
    ]


def test_torchruns_environment_belongs_to_pytorch() -> None:
    text = JAXJOB.replace("{name: mnist}", "{name: mnist, annotations: {bireme.io/environment: torchrun}}")

    assert [each.text for each in reading(text).warnings] == [
        "only a PyTorchJob has the environment of torchrun, not a JAXJob"
    ]


def test_a_restart_policy_within_the_template_is_overwritten_with_a_warning() -> None:
    text = TFJOB_OF_A_TUTORIAL.replace(
        "          containers:", "          restartPolicy: Never\n          containers:"
    )

    assert role_of(text).restart is Restart.ON_FAILURE
    assert any("will be overwritten" in each for each in warnings(text))


def test_fields_of_a_batch_job_that_only_a_cluster_acts_on_are_said() -> None:
    text = JOB.replace(
        "  completions: 4", "  completions: 4\n  backoffLimitPerIndex: 1\n  podReplacementPolicy: Failed"
    )

    assert warnings(text) == ["job.yaml:7:3 spec.backoffLimitPerIndex: only a cluster acts on this"]
