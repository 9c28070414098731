"""How an installed operator fares: it works, it is starting, or a sentence says what is in its way."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bireme import errors
from bireme.backends.kubernetes import rollouts
from bireme.backends.kubernetes.objects.api_types import Pod
from bireme.backends.kubernetes.rollouts import Deployment, ReplicaSet, Rollout, RolloutProgress, Standing
from bireme.operator.install import readiness

IMAGE = "registry.example/bireme-operator:1"
NEW, OLD = "2", "1"


def deployment(*, replicas: int = 1, generation: int = 2, seen: int = 2, **status: Any) -> Deployment:
    template = {"spec": {"containers": [{"name": "operator", "image": IMAGE}]}}
    body = {
        "metadata": {
            "name": "bireme-operator",
            "namespace": "bireme-system",
            "generation": generation,
            "annotations": {rollouts.REVISION: NEW},
        },
        "spec": {"replicas": replicas, "template": template},
        "status": {"observedGeneration": seen, **status},
    }
    return msgspec.convert(body, Deployment)


def pod(revision: str = NEW, *, ready: bool = False, container: Any = None, **more: Any) -> Pod:
    name = f"bireme-operator-{revision}"
    owner = {"kind": "ReplicaSet", "name": name, "uid": revision, "controller": True}
    status = {"name": "operator", "image": IMAGE, **(container or {"state": {"running": {}}})}
    body = {
        "metadata": {"name": f"{name}-x", "namespace": "bireme-system", "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "operator", "image": IMAGE}], "nodeName": "n", **more},
        "status": {
            "phase": "Running" if ready else "Pending",
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [status],
        },
    }
    return msgspec.convert(body, Pod)


def fares(deployed: Deployment, *pods: Pod, holder: str = "") -> Standing:
    sets = [{"metadata": {"uid": one, "annotations": {rollouts.REVISION: one}}} for one in (OLD, NEW)]
    return rollouts.judge(
        Rollout(deployed, tuple(msgspec.convert(sets, list[ReplicaSet])), pods, None, holder)
    )


def waiting(reason: str, message: str = "") -> Any:
    return {"state": {"waiting": {"reason": reason, "message": message}}}


def crashed(said: str, reason: str = "Error") -> Any:
    ended = {"terminated": {"exitCode": 4, "reason": reason, "message": said}}
    return {**waiting("CrashLoopBackOff"), "restartCount": 2, "lastState": ended}


RUNS = {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}


def test_an_operator_works_when_its_pod_is_available_and_holds_the_lease() -> None:
    held = fares(deployment(**RUNS), pod(ready=True), holder="bireme-operator-2-x_1_ab")
    not_yet = fares(deployment(**RUNS), pod(ready=True))
    held_by_another = fares(deployment(**RUNS), pod(ready=True), holder="laptop_7_cd")

    assert (held.works, not_yet.works, held_by_another.works) == (True, False, False)
    assert "laptop_7_cd holds it" in held_by_another.message
    assert not readiness.is_clear(held_by_another, 60.0)


def test_what_the_status_says_of_the_version_before_is_not_believed() -> None:
    earlier = pod(OLD, ready=True)

    found = fares(deployment(generation=3, **RUNS), earlier, holder="bireme-operator-1-x_1_ab")

    assert (found.progress, found.reason) == (RolloutProgress.COMING, "")


def test_an_image_that_cannot_be_pulled_is_named_with_the_commands_that_make_one() -> None:
    said = "failed to resolve reference: dial tcp: lookup registry.example: no such host"

    found = fares(deployment(), pod(container=waiting("ErrImagePull", said)))
    told = readiness.failure(found, 60.0)

    assert (found.progress, told.exit_status) == (RolloutProgress.STUCK, 5)
    assert f"image {IMAGE} does not answer" in told.what
    assert f"docker push {IMAGE}" in told.hint
    assert f"bireme install --image {IMAGE}" in told.hint
    assert len(str(told).splitlines()) <= errors.MOST_LINES


def test_an_image_that_a_registry_refuses_needs_a_secret() -> None:
    said = "pull access denied, repository does not exist or may require authorization"

    told = readiness.failure(fares(deployment(), pod(container=waiting("ErrImagePull", said))), 60.0)

    assert f"the registry refuses image {IMAGE}" in told.what
    assert "imagePullSecrets" in told.hint
    assert "rollout restart deployment bireme-operator" in told.hint


def test_an_image_of_something_else_is_not_told_to_be_pushed() -> None:
    said = 'runc create failed: exec: "operator": executable file not found in $PATH'

    told = readiness.failure(fares(deployment(), pod(container=crashed(said, "StartError"))), 60.0)

    assert "has no program operator" in told.what
    assert f"docker push {IMAGE}" not in told.hint
    assert "docker build" in told.hint


def test_an_operator_that_crashes_is_told_with_its_own_error() -> None:
    said = '{"message": "leading"}\nbireme: user x may not get leases\nask an administrator for it\n'

    told = readiness.failure(fares(deployment(), pod(container=crashed(said))), 60.0)

    assert told.exit_status == 1
    assert told.what == "the operator ends as soon as it starts: user x may not get leases"
    assert "kubectl logs -n bireme-system deployment/bireme-operator" in told.hint


@pytest.mark.parametrize(
    ("said", "what", "next"),
    [
        (
            'pods "x-" is forbidden: error looking up service account bireme-system/bireme-operator: '
            'serviceaccount "bireme-operator" not found',
            "namespace bireme-system has no ServiceAccount bireme-operator",
            "bireme install",
        ),
        (
            'pods "x-b" is forbidden: exceeded quota: none, requested: pods=1, used: pods=1, limited: pods=0',
            "the quota of namespace bireme-system does not allow its pod",
            "kubectl describe quota -n bireme-system",
        ),
        (
            'pods "x-b" is forbidden: violates PodSecurity "restricted:latest"',
            "its pod may not be created",
            "kubectl describe -n bireme-system",
        ),
    ],
)
def test_a_pod_that_the_cluster_does_not_let_be_created_is_told(said: str, what: str, next: str) -> None:
    refused = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": said}

    told = readiness.failure(fares(deployment(conditions=[refused])), 60.0)

    assert (what in told.what, next in told.hint, told.exit_status) == (True, True, 3)


def test_the_version_before_serves_while_the_new_one_does_not_start() -> None:
    broken = pod(container=waiting("ImagePullBackOff", "not found"))

    found = fares(deployment(**RUNS), broken, pod(OLD, ready=True), holder="bireme-operator-1-x_1_ab")

    assert (found.is_stuck, found.earlier_serves) == (True, True)
    assert "the operator's new version does not start" in readiness.failure(found, 60.0).what


def test_a_trouble_must_last_and_one_that_may_pass_is_waited_for() -> None:
    broken = fares(deployment(), pod(container=crashed("bireme: x")))
    crowded = Standing("ns", IMAGE, RolloutProgress.STUCK, "Unschedulable", "no node takes it")

    assert [readiness.is_clear(broken, lasted) for lasted in (0.0, readiness.STEADY)] == [False, True]
    assert not readiness.is_clear(crowded, 60.0)
    assert readiness.failure(crowded, 60.0).exit_status == 3


@pytest.mark.parametrize("said", ["dial tcp: i/o timeout", "unexpected status: 503", "toomanyrequests", ""])
def test_a_registry_that_fails_once_is_asked_a_second_time(said: str) -> None:
    backing_off = fares(deployment(), pod(container=waiting("ImagePullBackOff", said)))

    # The kubelet asks again after 10 to 25 s.
    assert [readiness.is_clear(backing_off, lasted) for lasted in (0.0, 26.0, 40.0)] == [False, False, True]
    assert readiness.failure(backing_off, 60.0).exit_status == 5


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("ErrImagePull", "failed to resolve reference: not found"),
        ("ImagePullBackOff", "pull access denied"),
        ("InvalidImageName", "couldn't parse image name"),
        ("ErrImageNeverPull", ""),
    ],
)
def test_an_image_that_no_further_try_brings_is_told_at_once(reason: str, said: str) -> None:
    found = fares(deployment(), pod(container=waiting(reason, said)))

    assert readiness.is_clear(found, 0.0)
    assert readiness.failure(found, 60.0).exit_status == 5


def test_an_operator_that_is_slow_or_scaled_down_is_told() -> None:
    slow = fares(deployment(), pod(container=waiting("ContainerCreating")))
    asleep = fares(deployment(replicas=0))

    assert "still starting" in readiness.failure(slow, 60.0).what
    assert "scale deployment bireme-operator --replicas 1" in readiness.failure(asleep, 60.0).hint
