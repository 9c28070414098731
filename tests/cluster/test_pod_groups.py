"""How jobs are placed as a whole, over a real API server with the gang schedulers' own definitions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.control_plane import Json, Plane, plane
from tests.cluster.gang_scheduler_processes import GROUPS, PLUGINS, VOLCANO, group_definitions
from tests.cluster.operator_fixtures import CRDS, Jobs, Operator, manifest, operator, until

PODS = ("mnist-master-0", "mnist-worker-0", "mnist-worker-1")
_numbers = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[Plane]:
    with plane("podgroups") as one:
        one("apply", *(f"--filename={file}" for file in (*CRDS, *group_definitions())))
        one("wait", "--for=condition=Established", *(f"crd/{name}" for name in GROUPS.values()))
        yield one


@pytest.fixture
def jobs(server: Plane) -> Jobs:
    return Jobs(server, f"team-{next(_numbers)}")


@pytest.fixture
def running(jobs: Jobs, scheduler: str, tmp_path: Path) -> Iterator[Operator]:
    options = ("--no-leader-elect", "--namespace", jobs.namespace, "--gang-scheduler-name", scheduler)
    with operator(jobs.plane.kubeconfig, tmp_path / "log", *options) as one:
        yield one


def mnist(**policy: Json) -> Json:
    one = {"restartPolicy": "Never"}
    roles: dict[str, Json] = {"Master": one, "Worker": {**one, "replicas": 2}}
    job = manifest("PyTorchJob", "pytorchReplicaSpecs", policy={"cleanPodPolicy": "All", **policy}, **roles)
    for spec in job["spec"]["pytorchReplicaSpecs"].values():
        spec["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "500m"}}
    return job


def groups(jobs: Jobs, scheduler: str) -> list[Json]:
    return jobs.objects(GROUPS[scheduler])


def say(jobs: Jobs, phase: str) -> None:
    """Say of the group what Volcano would."""
    jobs.patch(f"{GROUPS[VOLCANO]}/mnist", {"status": {"phase": phase}})


@pytest.mark.parametrize("scheduler", [PLUGINS])
@pytest.mark.usefixtures("running")
def test_the_group_is_made_first_and_then_all_pods_at_once(jobs: Jobs, scheduler: str) -> None:
    jobs.create(mnist())

    jobs.pods_are(*PODS)  # None of them has an address yet, nor would it be given one alone.
    (group,) = groups(jobs, scheduler)
    assert group["spec"] == {"minMember": 3, "minResources": {"cpu": "1500m"}}
    assert group["metadata"]["ownerReferences"][0]["name"] == "mnist"
    for pod in map(jobs.object, (f"pod/{name}" for name in PODS)):
        assert int(pod["metadata"]["resourceVersion"]) > int(group["metadata"]["resourceVersion"])
        assert pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "mnist"
        assert pod["spec"]["schedulerName"] == scheduler


@pytest.mark.parametrize("scheduler", [PLUGINS])
@pytest.mark.usefixtures("running")
def test_the_group_goes_when_the_job_is_put_aside_and_when_it_ends(jobs: Jobs, scheduler: str) -> None:
    jobs.create(mnist())
    jobs.pods_are(*PODS)
    jobs.run(*PODS)

    jobs.patch("pytorchjob/mnist", {"spec": {"runPolicy": {"suspend": True}}})
    until(lambda: groups(jobs, scheduler) == [], "the group to go")
    assert jobs.pods() == []

    jobs.patch("pytorchjob/mnist", {"spec": {"runPolicy": {"suspend": False}}})
    jobs.pods_are(*PODS)
    assert len(groups(jobs, scheduler)) == 1

    jobs.end("mnist-master-0", 0)
    jobs.condition("pytorchjob/mnist", "Succeeded")
    until(lambda: groups(jobs, scheduler) == [], "the group to go")


@pytest.mark.parametrize("scheduler", [PLUGINS])
def test_a_group_that_a_killed_operator_left_is_removed(
    jobs: Jobs, scheduler: str, running: Operator
) -> None:
    jobs.create(mnist())
    jobs.pods_are(*PODS)
    (group,) = groups(jobs, scheduler)
    jobs.end("mnist-master-0", 0)
    until(lambda: groups(jobs, scheduler) == [], "the group to go")
    running.kill()
    jobs.create({**group, "metadata": {**group["metadata"], "resourceVersion": "", "uid": ""}})

    running.start()

    until(lambda: groups(jobs, scheduler) == [], "the group to go")


@pytest.mark.parametrize("scheduler", [PLUGINS])
@pytest.mark.usefixtures("running")
def test_a_scaled_job_is_placed_in_its_new_size(jobs: Jobs, scheduler: str) -> None:
    jobs.create(mnist())
    jobs.pods_are(*PODS)

    jobs.patch("pytorchjob/mnist", {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 3}}}})

    jobs.pods_are(*PODS, "mnist-worker-2")
    assert groups(jobs, scheduler)[0]["spec"] == {"minMember": 4, "minResources": {"cpu": "2000m"}}

    jobs.patch("pytorchjob/mnist", {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 1}}}})

    jobs.pods_are(*PODS[:2])
    assert groups(jobs, scheduler)[0]["spec"] == {"minMember": 2, "minResources": {"cpu": "1000m"}}


@pytest.mark.parametrize("scheduler", [PLUGINS])
@pytest.mark.usefixtures("running")
def test_the_scheduler_is_asked_again_about_a_gang_that_it_turned_away(jobs: Jobs, scheduler: str) -> None:
    jobs.create(mnist())
    jobs.pods_are(*PODS)
    (group,) = groups(jobs, scheduler)

    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    jobs.play("mnist-worker-1", {"conditions": [refused]})

    until(lambda: "bireme.io/asked" in groups(jobs, scheduler)[0]["metadata"].get("annotations", {}))
    assert groups(jobs, scheduler)[0]["spec"] == group["spec"]


@pytest.mark.parametrize("scheduler", [VOLCANO])
@pytest.mark.usefixtures("running")
def test_no_pod_is_made_before_volcano_has_made_room(jobs: Jobs, scheduler: str) -> None:
    jobs.create(mnist(schedulingPolicy={"queue": "night"}))

    waiting = jobs.condition("pytorchjob/mnist", "Waiting")["message"]
    assert waiting.startswith("waits for volcano to make room for 3 pods in queue night")
    (group,) = groups(jobs, scheduler)
    assert group["spec"] == {"minMember": 3, "minResources": {"cpu": "1500m"}, "queue": "night"}
    say(jobs, "Pending")
    assert jobs.pods() == []

    say(jobs, "Inqueue")

    jobs.pods_are(*PODS)
    pod = jobs.object("pod/mnist-worker-1")
    assert pod["spec"]["schedulerName"] == "volcano"
    assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "mnist"
    assert pod["metadata"]["annotations"]["volcano.sh/task-spec"] == "worker"
    jobs.run(*PODS)
    jobs.becomes("pytorchjob/mnist", "Created", "Running")
    assert groups(jobs, scheduler)[0]["metadata"]["generation"] == 3  # Nobody wrote it but Volcano, twice.

    jobs.end("mnist-master-0", 0)
    until(lambda: groups(jobs, scheduler) == [], "the group to go")


@pytest.mark.parametrize("scheduler", [VOLCANO])
@pytest.mark.usefixtures("running")
def test_a_group_of_somebody_else_in_the_way_is_named(jobs: Jobs, scheduler: str) -> None:
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "spec": {"minMember": 1}}
    jobs.create({**group, "metadata": {"name": "mnist"}})

    jobs.create(mnist())

    waiting = jobs.condition("pytorchjob/mnist", "Waiting")["message"]
    assert 'a PodGroup named "mnist" exists and is not of this job' in waiting
    jobs.delete(f"{GROUPS[scheduler]}/mnist")
    until(lambda: groups(jobs, scheduler), "a group of the job's own")
    say(jobs, "Inqueue")
    jobs.pods_are(*PODS)
