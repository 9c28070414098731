"""Troubles: what is wrong with a pod and what to do next, in one sentence that a person can act on."""

from __future__ import annotations

from typing import Any

import pytest

from bireme.backends.kubernetes.objects.api_types import Meta, NodeObject, NodeStatus, ObjectCondition, Pod
from bireme.backends.kubernetes.observe import pod_diagnosis
from bireme.backends.kubernetes.observe.pod_status import READY_NODE
from tests.unit.kubernetes.making import Object, container, seen

LOST = NodeObject(Meta("n1"), status=NodeStatus((ObjectCondition("Ready", "Unknown"),)))


# Any: parts of an API object.
def pod(phase: str, *statuses: Object, resources: Object | None = None, **status: Any) -> Pod:
    main = container("pytorch", image="team/train:7", resources=resources or {})
    return seen(
        {
            "metadata": {"name": "mnist-worker-0", "namespace": "ml"},
            "spec": {
                "nodeName": "n1",
                "containers": [main],
                "initContainers": [container("prepare", image="prep:1")],
            },
            "status": {"phase": phase, "containerStatuses": list(statuses), **status},
        }
    )


def told(one: Pod, node: NodeObject | None = READY_NODE) -> tuple[str, str]:
    trouble = pod_diagnosis.of(one, node)
    return trouble.reason, trouble.message


def waiting(reason: str, message: str = "", name: str = "pytorch") -> Object:
    return {"name": name, "state": {"waiting": {"reason": reason, "message": message}}}


def ended(code: int, name: str = "pytorch", **more: object) -> Object:
    return {"name": name, "state": {"terminated": {"exitCode": code, **more}}}


# Nothing is wrong.


@pytest.mark.parametrize(
    "one",
    [
        pod("Pending"),
        pod("Pending", waiting("ContainerCreating")),
        pod("Pending", waiting("PodInitializing")),
        pod("Running", {"name": "pytorch", "state": {"running": {}}}),
        pod("Succeeded", ended(0)),
    ],
)
def test_a_pod_on_its_way_has_nothing_to_say(one: Pod) -> None:
    assert told(one) == ("", "")


# Images.


@pytest.mark.parametrize(
    ("reason", "said", "sentence"),
    [
        (
            "ErrImagePull",
            'failed to resolve reference "docker.io/team/train:7": not found',
            "image team/train:7 does not exist; correct `image` of container pytorch, or push it",
        ),
        (
            "ErrImagePull",
            "pull access denied, repository does not exist or may require authorization",
            "the registry refuses image team/train:7; check its name, or add an imagePullSecret "
            "that may read it",
        ),
        (
            "ErrImagePull",
            "429 Too Many Requests - toomanyrequests: You have reached your pull rate limit.",
            "the registry limits pulls of image team/train:7; wait, or use a mirror or an imagePullSecret",
        ),
        (
            "ErrImagePull",
            "dial tcp: lookup registry.example: no such host",
            "the registry of image team/train:7 does not answer node n1; check its address",
        ),
        (
            "ErrImagePull",
            "something new",
            "image team/train:7 cannot be pulled; see `kubectl describe -n ml pod/mnist-worker-0`",
        ),
        (
            "ErrImageNeverPull",
            "",
            "image team/train:7 is not on node n1 and imagePullPolicy is Never; "
            "load it there, or allow pulls",
        ),
        (
            "InvalidImageName",
            "",
            "team/train:7 is not the name of an image; correct `image` of container pytorch",
        ),
    ],
)
def test_an_image_that_cannot_be_had(reason: str, said: str, sentence: str) -> None:
    assert told(pod("Pending", waiting(reason, said)))[1] == sentence


def test_pulling_and_waiting_to_pull_say_the_same() -> None:
    said = "failed to resolve: not found"

    first = told(pod("Pending", waiting("ErrImagePull", said)))
    second = told(
        pod("Pending", waiting("ImagePullBackOff", f'Back-off pulling image "x": ErrImagePull: {said}'))
    )

    assert first == second
    assert first[0] == "ImagePullBackOff"


# Containers that cannot start.


@pytest.mark.parametrize(
    ("reason", "said", "sentence"),
    [
        (
            "CreateContainerConfigError",
            'configmap "settings" not found',
            "container pytorch needs the ConfigMap settings, which namespace ml does not have; create it",
        ),
        (
            "CreateContainerConfigError",
            'secret "s3" not found',
            "container pytorch needs the Secret s3, which namespace ml does not have; create it",
        ),
        (
            "CreateContainerConfigError",
            "couldn't find key token in Secret ml/s3",
            "container pytorch needs the key token of Secret s3, which does not have it; "
            "add it, or mark the reference as optional",
        ),
        (
            "CreateContainerConfigError",
            "something else.",
            "container pytorch cannot be set up: something else; "
            "see `kubectl describe -n ml pod/mnist-worker-0`",
        ),
        (
            "RunContainerError",
            'exec: "pythn": executable file not found in $PATH',
            "the image of container pytorch has no program pythn; correct its command or its image",
        ),
        (
            "CreateContainerError",
            "mount failed",
            "container pytorch cannot be started: mount failed; check its command and mounts",
        ),
    ],
)
def test_a_container_that_cannot_be_started(reason: str, said: str, sentence: str) -> None:
    assert told(pod("Pending", waiting(reason, said))) == (reason, sentence)


def test_a_container_that_crashes_again_and_again() -> None:
    crashed = waiting("CrashLoopBackOff") | {"lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}

    before_it_is_said = ended(1, reason="Error") | {"restartCount": 2}

    for one, which in ((crashed, " --previous"), (before_it_is_said, "")):
        assert told(pod("Running", one)) == (
            "CrashLoopBackOff",
            "container pytorch exited with code 1; see `kubectl logs -n ml pod/mnist-worker-0 -c pytorch"
            f"{which}` (it is started again after a pause)",
        )


def test_an_init_container_that_fails() -> None:
    crashed = waiting("CrashLoopBackOff", name="prepare")
    crashed["lastState"] = {"terminated": {"exitCode": 2}}

    again = pod("Pending", waiting("PodInitializing"), initContainerStatuses=[crashed])
    for_good = pod("Failed", waiting("PodInitializing"), initContainerStatuses=[ended(2, "prepare")])

    for one in (again, for_good):
        assert told(one)[1].startswith("init container prepare exited with code 2; see `kubectl logs")


# Pods that failed.


@pytest.mark.parametrize(
    ("end", "sentence"),
    [
        (
            ended(3),
            "container pytorch exited with code 3; see `kubectl logs -n ml pod/mnist-worker-0 -c pytorch`",
        ),
        (
            ended(1, message="Traceback (most recent call last):\n  File\nValueError: no data\n"),
            "container pytorch exited with code 1: ValueError: no data; "
            "see `kubectl logs -n ml pod/mnist-worker-0 -c pytorch`",
        ),
        (
            ended(139),
            "container pytorch was killed by SIGSEGV; see `kubectl logs -n ml pod/mnist-worker-0 -c pytorch`",
        ),
        (
            ended(255),
            "container pytorch exited with code 255; see `kubectl logs -n ml pod/mnist-worker-0 -c pytorch`",
        ),
        (
            ended(128, reason="StartError", message='exec: "mpirun": executable file not found in $PATH'),
            "the image of container pytorch has no program mpirun; correct its command or its image",
        ),
    ],
)
def test_a_program_that_failed(end: Object, sentence: str) -> None:
    assert told(pod("Failed", end))[1] == sentence


@pytest.mark.parametrize(
    ("resources", "of"),
    [
        ({"limits": {"memory": "2Gi"}}, "its memory limit of 2Gi"),
        ({}, "the memory that its node had left"),
    ],
)
def test_a_program_that_ran_out_of_memory(resources: Object, of: str) -> None:
    one = pod("Failed", ended(137, reason="OOMKilled"), resources=resources)

    assert told(one) == (
        "OOMKilled",
        f"container pytorch used more than {of}; raise resources.limits.memory, or use less",
    )


@pytest.mark.parametrize(
    ("status", "reason", "sentence"),
    [
        (
            {"reason": "Evicted", "message": "The node was low on resource: memory. "},
            "Evicted",
            "its node ran short of memory, disk or processes and took it away "
            "(The node was low on resource: memory); see `kubectl describe node n1`",
        ),
        (
            {"reason": "Evicted", "message": 'Usage of EmptyDir volume "tmp" exceeds the limit "1Gi". '},
            "Evicted",
            'it used more disk than it may: Usage of EmptyDir volume "tmp" exceeds the limit "1Gi"; '
            "raise resources.limits.ephemeral-storage or the volume's sizeLimit, or write less",
        ),
        (
            {"reason": "OutOfnvidia.com/gpu"},
            "OutOfnvidia.com/gpu",
            "its node had too little nvidia.com/gpu left when it arrived; see `kubectl describe node n1`",
        ),
        (
            {
                "conditions": [
                    {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
                ]
            },
            "PreemptionByScheduler",
            "it was taken away for a pod of higher priority; see `kubectl describe node n1`",
        ),
        (
            {"reason": "DeadlineExceeded"},
            "DeadlineExceeded",
            "it ran longer than its pod template allows; raise activeDeadlineSeconds of its pod template",
        ),
        (
            {},
            "Failed",
            "the cluster does not say why it failed; see `kubectl describe -n ml pod/mnist-worker-0`",
        ),
    ],
)
def test_a_pod_that_failed_as_a_whole(status: Object, reason: str, sentence: str) -> None:
    assert told(pod("Failed", **status)) == (reason, sentence)


# Nodes.


@pytest.mark.parametrize(
    ("node", "fact"), [(LOST, "node n1 does not answer"), (None, "node n1 no longer exists")]
)
def test_a_pod_on_a_lost_node(node: NodeObject | None, fact: str) -> None:
    reason, sentence = told(pod("Running"), node)

    assert reason == "NodeNotReady"
    assert sentence == f"{fact}; the replica is replaced if it stays away: see `kubectl describe node n1`"


# Placement.


@pytest.mark.parametrize(
    ("said", "step"),
    [
        (
            "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. preemption: 0/2 nodes are available.",
            "it asks for nvidia.com/gpu: 8; ask for less, or add a node that has it",
        ),
        (
            "0/2 nodes are available: 2 Insufficient cpu.",
            "it asks for cpu: 500m; ask for less, or add a node that has it",
        ),
        (
            "0/2 nodes are available: resource gap: map[cpu:{{6000 -3} {<nil>} DecimalSI}].",
            "it is placed with its whole gang, for which there is not enough cpu; "
            "ask for less, or wait until others are done",
        ),
        (
            "Pod ml/mnist-worker-0 can possibly be assigned to node1",
            "it is placed with its whole gang or not at all; "
            "`kubectl get -n ml events` tells what others lack",
        ),
        (
            "0/2 nodes are available: pre-filter pod mnist-worker-1 cannot find enough sibling pods, current "
            "pods number: 1, minMember of group: 6.",
            "it is placed with its whole gang or not at all; "
            "`kubectl get -n ml events` tells what others lack",
        ),
        (
            '0/2 nodes are available: persistentvolumeclaim "data" not found.',
            "namespace ml has no PersistentVolumeClaim data; create it",
        ),
        (
            "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
            "a PersistentVolumeClaim has no volume yet; see `kubectl get -n ml pvc` and its storage class",
        ),
        (
            "0/1 nodes are available: 1 node(s) had untolerated taint {sku: gpu}.",
            "add a toleration for sku to its template if it may run there, or untaint a node",
        ),
        (
            "0/1 nodes are available: 1 node(s) had untolerated taint(s).",
            "add a toleration for that taint to its template if it may run there, or untaint a node",
        ),
        (
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.",
            "no node has the labels that it asks for; "
            "see `kubectl get nodes --show-labels` and its nodeSelector",
        ),
        (
            "0/1 nodes are available: 1 node(s) were unschedulable.",
            "nodes are cordoned; `kubectl uncordon NODE` opens one",
        ),
        ("no nodes available to schedule pods", "the cluster has no nodes; add one"),
        ("something new", "see `kubectl describe -n ml pod/mnist-worker-0`"),
    ],
)
def test_a_pod_that_no_node_takes(said: str, step: str) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
    resources = {"limits": {"nvidia.com/gpu": 8}, "requests": {"cpu": "500m"}}

    reason, sentence = told(pod("Pending", resources=resources, conditions=[condition]))

    assert reason == "Unschedulable"
    facts = said.partition(" preemption")[0].rstrip(".")
    assert sentence == f"no node takes it ({facts}): {step}"


def test_a_pod_that_a_queue_holds_back() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}

    assert told(pod("Pending", conditions=[condition])) == (
        "SchedulingGated",
        "it waits for its scheduling gates to be lifted, as a queue such as Kueue does when there is room",
    )
