"""Replicas: what the core is told of a pod and of the node it is on."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from bireme.backends.kubernetes.objects import job_objects
from bireme.backends.kubernetes.objects.api_types import (
    Meta,
    NodeObject,
    NodeStatus,
    ObjectCondition,
    Pod,
    seconds,
)
from bireme.backends.kubernetes.observe import pod_status
from bireme.core.replicas import removal
from bireme.kinds.kubeflow_labels import REPLICA_INDEX
from bireme.model.replicas import Loss, Observation, Replica, ReplicaPhase
from tests.unit.kubernetes.making import (
    V1,
    V1ALPHA2,
    V2BETA1,
    Made,
    Object,
    container,
    made,
    mpi,
    seen,
    template,
)

NOW = 1_700_000_000.0
DUE = "2023-11-14T22:13:20Z"  # NOW
READY = pod_status.READY_NODE


def node(ready: str) -> NodeObject:
    return NodeObject(Meta("n1"), status=NodeStatus((ObjectCondition("Ready", ready),)))


def torch(*containers: Object) -> Made:
    raw = template(*(containers or (container("pytorch"),)))
    return made("PyTorchJob", {"Master": (1, raw), "Worker": (4, raw)})


@pytest.mark.parametrize("label", [None, "", "x", "1_0", "-1", "1.5"])
def test_a_pod_whose_attempt_is_not_told_counts_as_of_the_first(label: str | None) -> None:
    raw = torch().pod("worker", 2, attempt=5)
    del raw["metadata"]["labels"][job_objects.ATTEMPT]
    if label is not None:
        raw["metadata"]["labels"][job_objects.ATTEMPT] = label

    replica = pod_status.replica(pod(raw), READY)

    assert (replica.attempt, replica.attempt_told) == (0, False)
    assert pod_status.replica(pod(), READY).attempt_told


def test_an_index_that_is_not_a_number_is_no_error() -> None:
    raw = torch().pod("worker", 2)
    raw["metadata"]["name"] = "other"
    raw["metadata"]["labels"][REPLICA_INDEX] = "x"

    assert pod_status.replica(pod(raw), READY).index == 0


# Any: parts of an API object.
def pod(of: Object | None = None, *, node_name: str = "n1", deleted: str = "", **status: Any) -> Pod:
    """A pod as the cluster would show it, given one that was made."""
    raw = of or torch().pod("worker", 2, attempt=5)
    metadata = {**raw["metadata"], "uid": "u1"} | ({"deletionTimestamp": deleted} if deleted else {})
    return seen({"metadata": metadata, "spec": {**raw["spec"], "nodeName": node_name}, "status": status})


def ended(name: str, code: int, **more: object) -> Object:
    return {"name": name, "state": {"terminated": {"exitCode": code, **more}}, "restartCount": 0}


def running(name: str, restarts: int = 0, last: int | None = None) -> Object:
    status: Object = {"name": name, "state": {"running": {"startedAt": DUE}}, "restartCount": restarts}
    return status | ({"lastState": {"terminated": {"exitCode": last}}} if last is not None else {})


def waiting(name: str, reason: str, restarts: int = 0) -> Object:
    return {"name": name, "state": {"waiting": {"reason": reason}}, "restartCount": restarts}


# Who it is.


@pytest.mark.parametrize(
    ("made_of", "name", "role", "index"),
    [
        (torch().pod("master"), "mnist-master-0", "master", 0),
        (torch().pod("worker", 3), "mnist-worker-3", "worker", 3),
        (mpi(V1).pod("launcher"), "mnist-launcher", "launcher", 0),
        (mpi(V1).pod("worker", 1), "mnist-worker-1", "worker", 1),
        (mpi(V1ALPHA2).pod("launcher"), "mnist-launcher", "launcher", 0),
        (mpi(V1ALPHA2).pod("worker", 1), "mnist-worker-1", "worker", 1),
        (mpi(V2BETA1).pod("launcher"), "mnist-launcher", "launcher", 0),
        (mpi(V2BETA1).pod("worker", 1), "mnist-worker-1", "worker", 1),
        (mpi(V2BETA1, runLauncherAsWorker=True).pod("worker", 1), "mnist-worker-1", "worker", 1),
    ],
)
def test_every_pod_that_is_made_is_recognised(made_of: Object, name: str, role: str, index: int) -> None:
    replica = pod_status.replica(pod(made_of), READY)

    assert (replica.name, replica.role, replica.index) == (name, role, index)


def test_attempt_uid_node_and_address_are_told() -> None:
    replica = pod_status.replica(pod(phase="Running", podIP="10.1.2.3"), READY)

    assert (replica.attempt, replica.uid, replica.node, replica.address) == (5, "u1", "n1", "10.1.2.3")


def test_a_pod_of_nobody_s_attempt_is_of_the_first() -> None:
    assert pod_status.replica(Pod(Meta("x", labels={})), None).attempt == 0


# Where it is in its life.


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        ("", ReplicaPhase.PENDING),
        ("Pending", ReplicaPhase.PENDING),
        ("Running", ReplicaPhase.RUNNING),
        ("Succeeded", ReplicaPhase.SUCCEEDED),
        ("Failed", ReplicaPhase.FAILED),
        ("Unknown", ReplicaPhase.UNKNOWN),
    ],
)
def test_the_phase_is_the_pod_s(phase: str, expected: ReplicaPhase) -> None:
    assert pod_status.replica(pod(phase=phase), READY).phase is expected


@pytest.mark.parametrize(
    ("policy", "statuses", "expected"),
    [
        ("Never", [ended("pytorch", 1), ended("proxy", 0)], ReplicaPhase.FAILED),
        ("Never", [ended("pytorch", 0), ended("proxy", 0)], ReplicaPhase.SUCCEEDED),
        ("Never", [ended("pytorch", 1), running("proxy")], ReplicaPhase.RUNNING),
        ("Never", [ended("pytorch", 1)], ReplicaPhase.RUNNING),
        ("OnFailure", [ended("pytorch", 1), ended("proxy", 0)], ReplicaPhase.RUNNING),
    ],
)
def test_a_replica_has_ended_when_its_containers_have_and_none_comes_again(
    policy: str, statuses: list[Object], expected: ReplicaPhase
) -> None:
    raw = torch(container("pytorch"), container("proxy")).pod("worker")
    raw["spec"]["restartPolicy"] = policy

    replica = pod_status.replica(pod(raw, phase="Running", containerStatuses=statuses), READY)

    assert replica.phase is expected


@pytest.mark.parametrize(
    ("condition", "of", "ready"),
    [("True", READY, True), ("False", READY, False), ("True", node("Unknown"), False), ("True", None, False)],
)
def test_a_replica_is_ready_if_its_pod_is_and_its_node_answers(
    condition: str, of: NodeObject | None, ready: bool
) -> None:
    one = pod(phase="Running", conditions=[{"type": "Ready", "status": condition}])

    assert pod_status.replica(one, of).ready is ready


@pytest.mark.parametrize(
    ("statuses", "inits", "restarts"),
    [
        ([running("pytorch")], [], 0),
        ([running("pytorch", 2)], [], 2),
        ([running("pytorch", 2), running("sidecar", 1)], [running("prepare", 3)], 6),
        # While a crashed container waits for its next start, that start counts already.
        ([waiting("pytorch", "CrashLoopBackOff", 2)], [], 3),
        ([waiting("pytorch", "ContainerCreating", 0)], [], 0),
    ],
)
def test_restarts_of_all_containers_count(statuses: list[Object], inits: list[Object], restarts: int) -> None:
    one = pod(phase="Running", containerStatuses=statuses, initContainerStatuses=inits)

    assert pod_status.replica(one, READY).restarts == restarts


# How it ended.


@pytest.mark.parametrize(
    ("phase", "statuses", "inits", "code"),
    [
        ("Succeeded", [ended("pytorch", 0)], [], 0),
        ("Failed", [ended("pytorch", 3)], [], 3),
        ("Failed", [ended("sidecar", 7), ended("pytorch", 3)], [], 3),
        ("Failed", [ended("pytorch", 0), ended("sidecar", 7)], [], 7),
        ("Failed", [waiting("pytorch", "PodInitializing")], [ended("prepare", 9)], 9),
        ("Running", [running("pytorch", 1, last=4)], [], 4),
        ("Running", [running("pytorch")], [], None),
        ("Running", [running("pytorch"), ended("sidecar", 7)], [], None),
        ("Failed", [], [], None),
        ("Failed", [ended("pytorch", 137, reason="ContainerStatusUnknown")], [], None),
    ],
)
def test_the_exit_code_is_the_main_container_s(
    phase: str, statuses: list[Object], inits: list[Object], code: int | None
) -> None:
    one = pod(phase=phase, containerStatuses=statuses, initContainerStatuses=inits)

    assert pod_status.replica(one, READY).exit_code == code


def test_the_main_container_need_not_be_the_first() -> None:
    of = torch(container("sidecar"), container("pytorch")).pod("worker")
    one = pod(of, phase="Failed", containerStatuses=[ended("sidecar", 1), ended("pytorch", 3)])

    assert pod_status.replica(one, READY).exit_code == 3


DISRUPTED = [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]


@pytest.mark.parametrize(
    ("status", "of", "loss"),
    [
        ({"containerStatuses": [ended("pytorch", 1)]}, READY, Loss.CRASH),
        ({"containerStatuses": [ended("pytorch", 137, reason="OOMKilled")]}, READY, Loss.CRASH),
        ({"containerStatuses": [ended("pytorch", 137)]}, READY, Loss.CRASH),
        ({"containerStatuses": [ended("pytorch", 143)], "conditions": DISRUPTED}, READY, Loss.EVICTION),
        ({"reason": "Evicted", "message": "The node was low on resource: memory."}, READY, Loss.EVICTION),
        (
            {"reason": "Evicted", "message": 'Usage of EmptyDir volume "tmp" exceeds the limit "1Gi".'},
            READY,
            Loss.CRASH,
        ),
        (
            {"reason": "Evicted", "message": "Container a exceeded its local ephemeral storage limit 1Gi."},
            READY,
            Loss.CRASH,
        ),
        ({"reason": "NodeLost"}, READY, Loss.EVICTION),
        ({"reason": "NodeShutdown"}, READY, Loss.EVICTION),
        ({"reason": "Terminated"}, READY, Loss.EVICTION),
        ({"reason": "Preempted"}, READY, Loss.EVICTION),
        ({"reason": "UnexpectedAdmissionError"}, READY, Loss.EVICTION),
        ({"reason": "OutOfcpu"}, READY, Loss.EVICTION),
        ({"reason": "OutOfnvidia.com/gpu"}, READY, Loss.EVICTION),
        ({"reason": "DeadlineExceeded"}, READY, Loss.CRASH),
        (
            {"containerStatuses": [ended("pytorch", 137, reason="ContainerStatusUnknown")]},
            READY,
            Loss.EVICTION,
        ),
        ({}, node("Unknown"), Loss.EVICTION),
        ({}, None, Loss.EVICTION),
        ({"containerStatuses": [ended("pytorch", 1)]}, None, Loss.CRASH),
    ],
)
def test_a_crash_is_told_from_an_eviction(status: Object, of: NodeObject | None, loss: Loss) -> None:
    assert pod_status.replica(pod(phase="Failed", **status), of).loss is loss


# Nodes that are lost.


def test_a_pod_that_is_being_removed_is_stopping() -> None:
    assert pod_status.replica(pod(phase="Running", deleted=DUE), READY).stopping
    assert not pod_status.replica(pod(phase="Running"), READY).stopping


@pytest.mark.parametrize("of", [node("Unknown"), node("False"), NodeObject(Meta("n1")), None])
def test_a_pod_past_its_end_on_a_lost_node_is_given_up(of: NodeObject | None) -> None:
    replica = pod_status.replica(pod(phase="Running", deleted=DUE), of)

    assert (replica.unreachable, replica.grace_ends) == (True, NOW)
    assert given_up_at(replica) == NOW + 5
    assert not is_given_up(replica, NOW + 4.9)
    assert is_given_up(replica, NOW + 5)


@pytest.mark.parametrize("phase", ["Pending", "Running", "Succeeded", "Failed"])
def test_it_is_given_up_in_any_phase_because_its_name_is_wanted(phase: str) -> None:
    assert is_given_up(pod_status.replica(pod(phase=phase, deleted=DUE), None), NOW + 5)


@pytest.mark.parametrize(
    ("one", "of"),
    [
        (pod(phase="Running", deleted=DUE), READY),
        (pod(phase="Running"), node("Unknown")),
        (pod(phase="Pending", deleted=DUE, node_name=""), None),
    ],
)
def test_nobody_else_is_given_up(one: Pod, of: NodeObject | None) -> None:
    replica = pod_status.replica(one, of)

    assert given_up_at(replica) is None
    assert not is_given_up(replica, NOW + 1000)


def given_up_at(replica: Replica) -> float | None:
    return removal.next_judgement(Observation((replica,)), 0.0)


def is_given_up(replica: Replica, now: float) -> bool:
    (judged,) = removal.judged(Observation((replica,)), now).replicas
    return judged.abandoned


def held(one: Pod) -> Pod:
    return replace(one, metadata=replace(one.metadata, finalizers=("example.com/keep",)))


@pytest.mark.parametrize(
    ("one", "leftover"),
    [
        (pod(phase="Failed", deleted=DUE), True),
        (pod(phase="Succeeded", deleted=DUE), True),
        (pod(phase="Running", deleted=DUE), False),
        (pod(phase="Failed"), False),
        (held(pod(phase="Failed", deleted=DUE)), False),
    ],
)
def test_a_pod_that_ended_and_is_removed_is_a_leftover_unless_somebody_holds_it(
    one: Pod, leftover: bool
) -> None:
    assert pod_status.replica(one, READY).leftover is leftover


@pytest.mark.parametrize(
    ("written", "value"),
    [(None, None), (DUE, NOW), ("2023-11-14T22:13:20.5Z", NOW + 0.5), ("2023-11-14T23:13:20+01:00", NOW)],
)
def test_times_of_the_api_are_read(written: str | None, value: float | None) -> None:
    assert seconds(written) == value
