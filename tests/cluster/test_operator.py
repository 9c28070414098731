"""What the operator makes of jobs, over a real API server."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

import pytest

from tests.cluster.control_plane import Json, Plane, plane
from tests.cluster.operator_fixtures import CRDS, Jobs, Operator, manifest, operator, template, until

_numbers = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[Plane]:
    with plane("operator") as one:
        for file in CRDS:
            one.asked("apply", "-f", str(file))
        yield one


@pytest.fixture(scope="module")
def running(server: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    with operator(server.kubeconfig, tmp_path_factory.mktemp("operator") / "log") as one:
        yield one


@pytest.fixture
def jobs(server: Plane, running: Operator) -> Jobs:
    return Jobs(server, f"team-{next(_numbers)}")


def pytorch(workers: int = 2, *, restart: str = "OnFailure", **policy: Json) -> Json:
    role = {"restartPolicy": restart}
    return manifest(
        "PyTorchJob",
        "pytorchReplicaSpecs",
        policy=policy,
        Master=role,
        Worker={**role, "replicas": workers},
    )


def workers(count: int = 2, *, restart: str = "Never", **policy: Json) -> Json:
    worker = {"replicas": count, "restartPolicy": restart}
    return manifest("TFJob", "tfReplicaSpecs", policy=policy, Worker=worker)


def gang(job: Json) -> Json:
    job["metadata"]["annotations"] = {"bireme.io/restart": "gang"}
    return job


# From beginning to end.


def test_a_job_runs_and_succeeds(jobs: Jobs) -> None:
    jobs.create(pytorch())
    jobs.pods_are("mnist-master-0")
    jobs.run("mnist-master-0")
    jobs.pods_are("mnist-master-0", "mnist-worker-0", "mnist-worker-1")
    jobs.run("mnist-worker-0", "mnist-worker-1")
    jobs.becomes("pytorchjob/mnist", "Created", "Running")

    jobs.end("mnist-master-0", 0)

    jobs.becomes("pytorchjob/mnist", "Created", "-Running", "Succeeded")
    status = jobs.object("pytorchjob/mnist")["status"]
    assert status["completionTime"]
    assert {type: counts["succeeded"] for type, counts in status["replicaStatuses"].items()} == {
        "Master": 1,
        "Worker": 2,
    }
    assert jobs.pods() == ["mnist-master-0", "mnist-worker-0", "mnist-worker-1"]


def test_each_replica_has_a_headless_service_of_its_name(jobs: Jobs) -> None:
    jobs.create(workers())
    jobs.pods_are("mnist-worker-0", "mnist-worker-1")

    assert until(lambda: jobs.names("services")) == ["mnist-worker-0", "mnist-worker-1"]
    service = jobs.object("service/mnist-worker-0")["spec"]
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)


def test_what_the_template_holds_passes_through(jobs: Jobs) -> None:
    job = workers(1)
    spec = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]
    spec["metadata"] = {"labels": {"team": "vision"}, "annotations": {"note": "kept"}}
    spec["spec"] |= {"priority": 0, "shareProcessNamespace": True, "nodeSelector": {"disk": "fast"}}
    jobs.create(job)
    jobs.pods_are("mnist-worker-0")

    pod = jobs.object("pod/mnist-worker-0")

    assert pod["metadata"]["labels"]["team"] == "vision"
    assert pod["metadata"]["labels"]["training.kubeflow.org/job-name"] == "mnist"
    assert pod["metadata"]["annotations"]["note"] == "kept"
    assert (pod["spec"]["shareProcessNamespace"], pod["spec"]["nodeSelector"]) == (True, {"disk": "fast"})
    assert pod["metadata"]["ownerReferences"][0]["kind"] == "TFJob"


def test_workers_of_a_tfjob_find_each_other_by_tf_config(jobs: Jobs) -> None:
    jobs.create(workers())
    jobs.pods_are("mnist-worker-0", "mnist-worker-1")

    env = jobs.object("pod/mnist-worker-1")["spec"]["containers"][0]["env"]

    config = json.loads(next(one["value"] for one in env if one["name"] == "TF_CONFIG"))
    peers = [f"mnist-worker-{index}.{jobs.namespace}.svc:2222" for index in range(2)]
    assert config["cluster"] == {"worker": peers}
    assert config["task"] == {"type": "worker", "index": 1}


# Losses.


def test_an_evicted_worker_is_replaced(jobs: Jobs) -> None:
    jobs.create(workers(restart="OnFailure"))
    jobs.pods_are("mnist-worker-0", "mnist-worker-1")
    jobs.run("mnist-worker-0", "mnist-worker-1")
    first = jobs.object("pod/mnist-worker-1")["metadata"]["uid"]

    jobs.play("mnist-worker-1", {"phase": "Failed", "reason": "Evicted", "message": "low on memory"})

    until(lambda: "mnist-worker-1" in jobs.pods() and _uid(jobs, "mnist-worker-1") != first, "another pod")
    until(lambda: jobs.object("tfjob/mnist")["status"]["bireme"].get("evictions") == 1)
    assert "TFJobRestarting: job mnist is restarting because Worker replica(s) failed." in jobs.events(
        "mnist"
    )


def test_a_permanent_exit_code_fails_the_job(jobs: Jobs) -> None:
    jobs.create(workers(restart="ExitCode"))
    jobs.pods_are("mnist-worker-0", "mnist-worker-1")
    jobs.run("mnist-worker-0", "mnist-worker-1")

    jobs.end("mnist-worker-1", 1)

    assert jobs.condition("tfjob/mnist", "Failed")["reason"] == "TFJobFailed"
    assert jobs.object("tfjob/mnist")["status"]["completionTime"]


def test_the_backoff_limit_counts_pods_that_were_replaced(jobs: Jobs) -> None:
    jobs.create(workers(1, restart="ExitCode", backoffLimit=1))
    for _ in range(2):
        until(lambda: jobs.pods() == ["mnist-worker-0"] and _phase(jobs, "mnist-worker-0") == "Pending")
        jobs.run("mnist-worker-0")
        jobs.end("mnist-worker-0", 137)

    failed = jobs.condition("tfjob/mnist", "Failed")

    assert failed["message"] == "Job mnist has failed because it has reached the specified backoff limit"


def test_a_gang_starts_anew_as_a_whole(jobs: Jobs) -> None:
    jobs.create(gang(pytorch(1)))
    jobs.pods_are("mnist-master-0")
    jobs.run("mnist-master-0")
    jobs.pods_are("mnist-master-0", "mnist-worker-0")
    jobs.run("mnist-worker-0")
    jobs.becomes("pytorchjob/mnist", "Created", "Running")

    jobs.end("mnist-worker-0", 1)

    until(lambda: jobs.pods() == ["mnist-master-0"] and _attempt(jobs, "mnist-master-0") == "1", "attempt 1")
    jobs.run("mnist-master-0")
    jobs.pods_are("mnist-master-0", "mnist-worker-0")
    worker = jobs.object("pod/mnist-worker-0")["spec"]
    assert worker["restartPolicy"] == "Never"
    assert worker["hostAliases"] == [{"ip": "10.1.2.3", "hostnames": ["mnist-master-0"]}]


# Limits.


def test_a_deadline_wakes_the_job_by_itself(jobs: Jobs) -> None:
    jobs.create(workers(1, activeDeadlineSeconds=1, cleanPodPolicy="All"))
    jobs.pods_are("mnist-worker-0")
    jobs.run("mnist-worker-0")

    failed = jobs.condition("tfjob/mnist", "Failed")

    assert failed["message"] == "Job mnist has failed because it was active longer than specified deadline"


def test_a_job_is_deleted_when_its_time_to_live_is_over(jobs: Jobs) -> None:
    jobs.create(workers(1, ttlSecondsAfterFinished=1))
    jobs.pods_are("mnist-worker-0")

    jobs.end("mnist-worker-0", 0)

    until(lambda: jobs.names("tfjobs") == [], "the job to be deleted")


# What users change.


def test_suspending_removes_everything_and_resuming_brings_it_back(jobs: Jobs) -> None:
    jobs.create(workers())
    jobs.pods_are("mnist-worker-0", "mnist-worker-1")
    jobs.run("mnist-worker-0", "mnist-worker-1")
    jobs.becomes("tfjob/mnist", "Created", "Running")

    jobs.patch("tfjob/mnist", {"spec": {"runPolicy": {"suspend": True}}})
    jobs.becomes("tfjob/mnist", "Created", "-Running", "Suspended")
    until(lambda: (jobs.pods(), jobs.names("services")) == ([], []), "pods and services to go")
    jobs.patch("tfjob/mnist", {"spec": {"runPolicy": {"suspend": False}}})

    jobs.pods_are("mnist-worker-0", "mnist-worker-1")
    jobs.run("mnist-worker-0", "mnist-worker-1")
    jobs.becomes("tfjob/mnist", "Created", "-Suspended", "Running")


def test_scaling_through_the_scale_subresource(jobs: Jobs) -> None:
    jobs.create(pytorch(1))
    jobs.pods_are("mnist-master-0")
    jobs.run("mnist-master-0")
    jobs.pods_are("mnist-master-0", "mnist-worker-0")

    jobs.plane.asked("-n", jobs.namespace, "scale", "pytorchjob/mnist", "--replicas=3")
    jobs.pods_are("mnist-master-0", "mnist-worker-0", "mnist-worker-1", "mnist-worker-2")
    jobs.plane.asked("-n", jobs.namespace, "scale", "pytorchjob/mnist", "--replicas=1")

    jobs.pods_are("mnist-master-0", "mnist-worker-0")
    assert until(lambda: jobs.names("services") == ["mnist-master-0", "mnist-worker-0"])


def test_finished_pods_are_cleaned_up_as_the_policy_says(jobs: Jobs) -> None:
    jobs.create(workers(cleanPodPolicy="Running"))
    jobs.pods_are("mnist-worker-0", "mnist-worker-1")
    jobs.run("mnist-worker-0", "mnist-worker-1")

    jobs.end("mnist-worker-0", 0)

    jobs.condition("tfjob/mnist", "Succeeded")
    jobs.pods_are("mnist-worker-0")


def test_a_job_that_another_manager_owns_is_left_alone(jobs: Jobs) -> None:
    jobs.create(workers(managedBy="kueue.x-k8s.io/multikueue"))
    jobs.create(workers(1) | {"metadata": {"name": "other"}})
    jobs.pods_are("other-worker-0")

    assert "status" not in jobs.object("tfjob/mnist")


# What keeps a job from going on is said.


def test_a_quota_that_is_used_up_is_told_in_a_condition(jobs: Jobs) -> None:
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "1"}}}
    jobs.create({"apiVersion": "v1", "kind": "ResourceQuota", **quota})
    jobs.patch(
        "resourcequota/small",
        {"status": {"hard": {"pods": "1"}, "used": {"pods": "0"}}},
        "--subresource=status",
    )

    jobs.create(workers(2))

    waiting = jobs.condition("tfjob/mnist", "Waiting")
    assert "exceeded quota: small" in waiting["message"]
    assert any(event.startswith("FailedCreatePod: Error creating") for event in jobs.events("mnist"))


def test_an_image_that_cannot_be_pulled_is_told_until_it_can(jobs: Jobs) -> None:
    jobs.create(workers(1))
    jobs.pods_are("mnist-worker-0")
    waits = {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
    status = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": waits}
    jobs.play("mnist-worker-0", {"phase": "Pending", "containerStatuses": [status]})

    waiting = jobs.condition("tfjob/mnist", "Waiting")
    assert "example/train:1" in waiting["message"]
    assert jobs.conditions("tfjob/mnist")[-1] == "Waiting"

    jobs.run("mnist-worker-0")
    jobs.becomes("tfjob/mnist", "Created", "Running")


def test_a_pod_of_somebody_else_in_the_way_is_named(jobs: Jobs) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mnist-worker-0"}, **template()}
    jobs.create(pod)

    jobs.create(workers(1))

    waiting = jobs.condition("tfjob/mnist", "Waiting")
    assert 'a Pod named "mnist-worker-0" exists and is not of this job' in waiting["message"]


def test_pods_whose_attempt_label_is_gone_or_no_number_do_not_stop_their_job(jobs: Jobs) -> None:
    jobs.create(gang(workers(2, restart="OnFailure", backoffLimit=3)))
    jobs.run_in_order("mnist-worker-0", "mnist-worker-1")
    jobs.becomes("tfjob/mnist", "Created", "Running")
    jobs.end("mnist-worker-1", 1)
    until(lambda: jobs.pods() and _attempt(jobs, "mnist-worker-1") == "1", "the next attempt")
    until(lambda: jobs.pods() == ["mnist-worker-0", "mnist-worker-1"], "the whole gang")
    jobs.run("mnist-worker-0", "mnist-worker-1")
    until(lambda: _sightings(jobs) == 2, "both to be recorded")
    uid = _uid(jobs, "mnist-worker-0")

    jobs.patch("pod/mnist-worker-0", {"metadata": {"labels": {"bireme.io/attempt": None}}})
    jobs.patch("pod/mnist-worker-1", {"metadata": {"labels": {"bireme.io/attempt": "x"}}})
    jobs.end("mnist-worker-0", 0)
    jobs.end("mnist-worker-1", 0)

    jobs.condition("tfjob/mnist", "Succeeded")
    assert _uid(jobs, "mnist-worker-0") == uid
    assert not jobs.object("tfjob/mnist")["status"]["bireme"].get("evictions")


def test_a_job_that_kubeflow_s_operator_left_half_done_is_carried_on(jobs: Jobs, running: Operator) -> None:
    running.kill()
    jobs.create(workers(2))
    owner = {**_reference(jobs.object("tfjob/mnist")), "controller": True, "blockOwnerDeletion": True}
    for index in range(2):
        marks = {
            "training.kubeflow.org/job-name": "mnist",
            "training.kubeflow.org/operator-name": "tfjob-controller",
            "training.kubeflow.org/replica-index": str(index),
            "training.kubeflow.org/replica-type": "worker",
        }
        metadata = {"name": f"mnist-worker-{index}", "labels": marks, "ownerReferences": [owner]}
        jobs.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **template()})
        jobs.run(f"mnist-worker-{index}")
    begun = {"type": "Running", "status": "True", "reason": "TFJobRunning", "message": "running"}
    jobs.patch("tfjob/mnist", {"status": {"conditions": [begun]}}, "--subresource=status")
    uids = {_uid(jobs, pod) for pod in jobs.pods()}

    running.start()
    until(lambda: _sightings(jobs) == 2, "both to be recorded")
    jobs.end("mnist-worker-0", 0)
    jobs.end("mnist-worker-1", 0)

    jobs.condition("tfjob/mnist", "Succeeded")
    assert {_uid(jobs, pod) for pod in jobs.pods()} == uids


def test_no_second_launcher_starts_beside_that_of_kubeflow_s_operator(jobs: Jobs) -> None:
    """Kubeflow's MPI operator runs a launcher through a batch Job, whose pod has a name of its own."""
    marks = {"training.kubeflow.org/job-name": "mnist", "training.kubeflow.org/job-role": "launcher"}
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "mnist-launcher",
        "uid": "1",
        "controller": True,
    }
    metadata = {"name": "mnist-launcher-x7k2p", "labels": marks, "ownerReferences": [owner]}
    jobs.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **template()})
    jobs.create({**mpi(1), "apiVersion": "kubeflow.org/v2beta1"})
    jobs.run_in_order("mnist-worker-0")

    waiting = jobs.condition("mpijob/mnist", "Waiting")
    assert "mnist-launcher-x7k2p" in waiting["message"]
    assert "kubectl delete job mnist-launcher" in waiting["message"]
    assert "mnist-launcher" not in jobs.pods()
    jobs.delete("pod/mnist-launcher-x7k2p", "--force", "--grace-period=0")

    until(lambda: "mnist-launcher" in jobs.pods(), "our launcher")


def test_a_pod_that_cannot_be_followed_is_named(jobs: Jobs) -> None:
    jobs.create(workers(1, restart="OnFailure"))
    jobs.run_in_order("mnist-worker-0")
    jobs.becomes("tfjob/mnist", "Created", "Running")

    jobs.patch("pod/mnist-worker-0", {"metadata": {"labels": {"training.kubeflow.org/job-name": None}}})
    waiting = jobs.condition("tfjob/mnist", "Waiting")
    assert f"kubectl delete pod mnist-worker-0 --namespace {jobs.namespace}" in waiting["message"]
    before = _uid(jobs, "mnist-worker-0")
    jobs.delete("pod/mnist-worker-0", "--force", "--grace-period=0")

    until(lambda: jobs.pods() and _uid(jobs, "mnist-worker-0") != before, "the pod to be replaced")


# The rights of a launcher.


def mpi(workers: int = 2, **policy: Json) -> Json:
    return manifest("MPIJob", "mpiReplicaSpecs", policy=policy, Launcher=None, Worker={"replicas": workers})


def test_a_launcher_may_not_enter_a_pod_that_is_not_of_its_job(jobs: Jobs) -> None:
    jobs.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mnist-worker-1"}, **template()})

    jobs.create(mpi())

    waiting = jobs.condition("mpijob/mnist", "Waiting")
    assert 'a Pod named "mnist-worker-1" exists' in waiting["message"]
    until(lambda: _entered(jobs) == ["mnist-worker-0"], "the right over the worker that is its own")


def test_a_launcher_s_rights_come_and_go_with_its_workers(jobs: Jobs) -> None:
    jobs.create(mpi(3, cleanPodPolicy="All"))
    every = [f"mnist-worker-{index}" for index in range(3)]
    jobs.pods_are(*every)
    until(lambda: _entered(jobs) == every, "rights over all workers")
    jobs.run(*every)
    until(lambda: "mnist-launcher" in jobs.pods(), "the launcher")
    assert _entered(jobs) == every
    for rule in _rules(jobs):
        assert rule["resourceNames"] == every
        assert not {"list", "watch"} & set(rule["verbs"])

    jobs.patch("mpijob/mnist", {"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 2}}}})
    until(lambda: _entered(jobs) == every[:2], "the right over the last worker to go")

    jobs.run("mnist-launcher")
    jobs.end("mnist-launcher", 0)
    jobs.condition("mpijob/mnist", "Succeeded")
    until(lambda: not _rules(jobs), "all rights to go")


def test_rights_that_a_killed_operator_left_are_withdrawn(jobs: Jobs, running: Operator) -> None:
    jobs.create(mpi(1, cleanPodPolicy="All"))
    jobs.run_in_order("mnist-worker-0", "mnist-launcher")
    until(lambda: _entered(jobs) == ["mnist-worker-0"], "the right")

    running.kill()
    jobs.patch("mpijob/mnist", {"spec": {"runPolicy": {"suspend": True}}})
    for pod in ("mnist-worker-0", "mnist-launcher"):
        jobs.delete(f"pod/{pod}", "--force", "--grace-period=0")
    running.start()

    until(lambda: not _rules(jobs), "all rights to go")


def test_a_service_account_that_a_template_names_is_not_made(jobs: Jobs) -> None:
    job = mpi(1)
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["serviceAccountName"] = "trainer"
    jobs.create(job)

    waiting = jobs.condition("mpijob/mnist", "Waiting")
    assert "the ServiceAccount trainer, which does not exist; create it: kubectl" in waiting["message"]
    assert "trainer" not in jobs.names("serviceaccounts")
    assert jobs.pods() == []

    jobs.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "trainer"}})
    jobs.run_in_order("mnist-worker-0", "mnist-launcher")
    (binding,) = jobs.objects("rolebindings")
    assert [one["name"] for one in binding["subjects"]] == ["trainer"]


def test_a_service_account_of_somebody_else_is_not_given_rights(jobs: Jobs) -> None:
    jobs.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "mnist-launcher"}})

    jobs.create(mpi(1))

    waiting = jobs.condition("mpijob/mnist", "Waiting")
    assert 'a ServiceAccount named "mnist-launcher" exists and is not of this job' in waiting["message"]
    assert jobs.names("rolebindings") == []


def _rules(jobs: Jobs) -> list[Json]:
    roles = [one for one in jobs.objects("roles") if one["metadata"]["name"] == "mnist-launcher"]
    return [rule for one in roles for rule in one.get("rules") or ()]


def _entered(jobs: Jobs) -> list[str]:
    """The pods in which the launcher may start commands."""
    named = [one["resourceNames"] for one in _rules(jobs) if one["resources"] == ["pods/exec"]]
    return sorted(name for names in named for name in names)


def _reference(one: Json) -> Json:
    return {
        "apiVersion": one["apiVersion"],
        "kind": one["kind"],
        "name": one["metadata"]["name"],
        "uid": one["metadata"]["uid"],
    }


def _sightings(jobs: Jobs) -> int:
    return len(jobs.object("tfjob/mnist").get("status", {}).get("bireme", {}).get("sightings", {}))


def _uid(jobs: Jobs, pod: str) -> str:
    return str(jobs.object(f"pod/{pod}")["metadata"]["uid"])


def _phase(jobs: Jobs, pod: str) -> str:
    return str(jobs.object(f"pod/{pod}")["status"]["phase"])


def _attempt(jobs: Jobs, pod: str) -> str:
    return str(jobs.object(f"pod/{pod}")["metadata"]["labels"]["bireme.io/attempt"])
