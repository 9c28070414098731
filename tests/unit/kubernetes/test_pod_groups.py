"""Pod groups: how many pods are placed together, where, and what they need."""

from __future__ import annotations

import pytest

from bireme.backends.kubernetes.objects import job_objects, pod_groups
from bireme.backends.kubernetes.objects.api_types import PodGroup, PodGroupStatus
from tests.unit.kubernetes.making import V1, V2BETA1, Made, Object, container, made, mpi, template


def needing(**resources: object) -> Object:
    return template(container("pytorch", resources=resources))


def torch(
    scheduling: Object | None = None, master: Object | None = None, worker: Object | None = None
) -> Made:
    roles = {"Master": (1, master or template()), "Worker": (3, worker or template())}
    return made("PyTorchJob", roles, runPolicy={"schedulingPolicy": scheduling or {}})


def by_role(of: Made) -> dict[str, Object]:
    return {type.lower(): raw for type, raw in of.templates.items()}


def spec(of: Made, scheduler: str = "volcano", priorities: dict[str, int] | None = None) -> Object:
    made_of: Object = pod_groups.podgroup(of.job, scheduler, by_role(of), priorities or {})["spec"]
    return made_of


def test_volcano_s_group() -> None:
    job = torch({"queue": "night", "priorityClass": "high", "minAvailable": 2, "minResources": {"cpu": "3"}})

    assert pod_groups.podgroup(job.job, "volcano", by_role(job), {}) == {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "mnist", "namespace": "ml", "ownerReferences": [job_objects.owner(job.job)]},
        "spec": {
            "minMember": 2,
            "minResources": {"cpu": "3"},
            "queue": "night",
            "priorityClassName": "high",
        },
    }


def test_the_scheduler_plugins_group() -> None:
    job = torch({"scheduleTimeoutSeconds": 60, "queue": "night"})
    group = pod_groups.podgroup(job.job, "gangs", by_role(job), {})

    assert group["apiVersion"] == "scheduling.x-k8s.io/v1alpha1"
    assert group["spec"] == {"minMember": 4, "scheduleTimeoutSeconds": 60}


def test_unless_said_otherwise_all_are_placed_together_in_the_usual_queue() -> None:
    assert spec(torch()) == {"minMember": 4, "queue": "default"}


def test_annotations_of_the_job_are_copied() -> None:
    job = mpi(V1, annotations={"team": "vision"})

    assert pod_groups.podgroup(job.job, "volcano", {}, {})["metadata"]["annotations"] == {"team": "vision"}


def test_requests_of_all_pods_are_added_up() -> None:
    master = needing(requests={"cpu": "500m"}, limits={"cpu": "8", "memory": "1Gi"})
    worker = needing(limits={"cpu": "2", "memory": "1Ki", "nvidia.com/gpu": 4})

    assert spec(torch(master=master, worker=worker))["minResources"] == {
        "cpu": "6500m",
        "memory": "3072",
        "nvidia.com/gpu": "12",
    }


@pytest.mark.parametrize(
    ("priorities", "cpu"), [({}, "1100m"), ({"high": 10}, "200m"), ({"high": 10, "higher": 20}, "1100m")]
)
def test_of_fewer_pods_those_of_the_highest_priority_count(priorities: dict[str, int], cpu: str) -> None:
    master = needing(requests={"cpu": "1"})
    master["spec"]["priorityClassName"] = "higher"
    worker = needing(requests={"cpu": "100m"})
    worker["spec"]["priorityClassName"] = "high"

    job = torch({"minAvailable": 2}, master, worker)

    assert spec(job, priorities=priorities)["minResources"] == {"cpu": cpu}


def test_v2beta1_looks_further_for_its_queue_and_priority() -> None:
    noted = {"scheduling.volcano.sh/queue-name": "night"}
    job = mpi(V2BETA1, worker=template(priorityClassName="low"), annotations=noted)
    both = mpi(V2BETA1, launcher=template(priorityClassName="high"), worker=template(priorityClassName="low"))

    assert spec(job) == {"minMember": 2, "queue": "night", "priorityClassName": "low"}
    assert spec(both)["priorityClassName"] == "high"
    assert spec(job, "gangs") == {"minMember": 2, "scheduleTimeoutSeconds": 0}


def test_a_launcher_that_waits_for_its_workers_is_not_waited_for_but_has_its_room() -> None:
    small, large = needing(requests={"cpu": "1"}), needing(requests={"cpu": "4"})
    job = mpi(V1, launcher=small, worker=large, runPolicy={"schedulingPolicy": {"minAvailable": 3}})

    assert spec(job) == {"minMember": 2, "queue": "default", "minResources": {"cpu": "9000m"}}


def test_a_job_without_room_says_where_to_look() -> None:
    assert pod_groups.waiting(torch({"queue": "night"}).job, "volcano") == (
        "waits for volcano to make room for 4 pods in queue night: kubectl describe podgroups mnist tells why"
    )


@pytest.mark.parametrize(
    ("scheduler", "phase", "admitted"),
    [
        ("volcano", None, False),
        ("volcano", "", False),
        ("volcano", "Pending", False),
        ("volcano", "Inqueue", True),
        ("volcano", "Running", True),
        ("gangs", None, False),
        ("gangs", "", True),
        ("gangs", "Pending", True),
    ],
)
def test_volcano_makes_room_before_there_are_pods(scheduler: str, phase: str | None, admitted: bool) -> None:
    group = None if phase is None else PodGroup(status=PodGroupStatus(phase))

    assert pod_groups.is_admitted(scheduler, group) is admitted
