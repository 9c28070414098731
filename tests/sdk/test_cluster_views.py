"""A job of a cluster is shown as one of this machine: same phases, same first error, same words."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bireme.backends.kubernetes.objects.api_types import Pod
from bireme.backends.kubernetes.objects.job_objects import JobObject
from bireme.backends.kubernetes.observe import termination_log
from bireme.backends.kubernetes.submit.job_client import EventObject
from bireme.model.replicas import ReplicaPhase
from bireme.model.status import Phase
from bireme.sdk.cluster import cluster_views
from bireme.sdk.cluster.cluster_views import JobSnapshot
from bireme.sdk.views import Finding
from tests.sdk.clusterobjects import EPOCH, at, condition, ended, failed, job, pod

NOW = EPOCH + 100.0
RUNNING = {"conditions": [condition("Created", 0), condition("Running", 2)], "startTime": at(1)}
READY = [{"type": "Ready", "status": "True"}]


def _seen(one: JobObject, *pods: Pod) -> JobSnapshot:
    return cluster_views.seen("mnist", "dev", one, pods, NOW)


def test_a_running_job_is_seen_with_its_replicas_and_where_it_is() -> None:
    seen = _seen(job(RUNNING), pod("master-0", conditions=READY), pod("worker-0"))

    view = cluster_views.view(seen)

    assert (view.phase, view.workers, view.where) == (Phase.RUNNING, "1/2", "dev/team")
    assert view.key == "dev/team/pytorchjob/mnist"
    assert [(one.short, one.rank, one.host, one.ready) for one in view.replicas] == [
        ("master-0", 0, "node-1", True),
        ("worker-0", 1, "node-1", False),
    ]
    assert (view.command, view.why, view.diagnosis) == (("python", "train.py"), "", None)


def test_a_pod_whose_label_does_not_tell_its_attempt_is_shown_in_it() -> None:
    memory = {"attempt": 2, "sightings": {"mnist-worker-0": {"uid": "worker-0-uid"}}}
    unlabelled = {"labels": {"training.kubeflow.org/replica-type": "worker", "bireme.io/attempt": "x"}}
    one = job({**RUNNING, "bireme": memory})

    view = cluster_views.view(_seen(one, pod("worker-0", conditions=READY, metadata=unlabelled)))

    assert view.workers == "1/2"
    assert [one.short for one in view.replicas if one.ready] == ["worker-0"]


def test_the_first_error_is_the_earliest_termination() -> None:
    one = job(failed(12), workers=2)
    pods = (
        pod("master-0", ended(1, 11), phase="Failed"),
        pod("worker-0", ended(3, 9), phase="Failed"),
        pod("worker-1", ended(1, 10), phase="Failed"),
    )

    view = cluster_views.view(_seen(one, *pods), ("Traceback (most recent call last):", "ValueError: no"))

    assert view.diagnosis is not None
    assert view.diagnosis.summary == "mnist failed: rank 1 (worker-0 on node-1) ended with exit code 3"
    assert view.diagnosis.error is not None
    assert view.diagnosis.error.what == "ValueError: no"
    assert view.diagnosis.more == "bireme logs mnist worker-0"
    assert (view.exit_status, view.why) == (1, "rank 1 (worker-0 on node-1) ended with exit code 3")


def test_within_one_second_the_last_lines_tell_who_was_first() -> None:
    pods = [pod(name, ended(1, 9), phase="Failed") for name in ("master-0", "worker-0")]
    seen = replace(
        _seen(job(failed(9)), *pods), last_lines={"master-0-uid": EPOCH + 9.8, "worker-0-uid": EPOCH + 9.3}
    )

    found = cluster_views.explained(seen)

    assert found is not None
    assert found.error is not None
    assert found.error.short == "worker-0"


def test_a_crash_in_a_pod_is_told_with_the_line_that_its_log_names() -> None:
    seen = _seen(job(failed(9)), pod("worker-0", ended(139, 9), phase="Failed"))

    found = cluster_views.explained(replace(seen, crashes={("mnist-worker-0", 0): "train.py:4 in crash()"}))

    assert found is not None
    assert found.error is not None
    assert found.error.how == "was killed by SIGSEGV in train.py:4 in crash() (exit code 139)"


def test_what_a_rank_told_of_itself_is_believed_before_anything_else() -> None:
    told = f"bireme-report asked=1 time={EPOCH + 8.5}\nTraceback (most recent call last):\nKeyError: 'x'\n"
    pods = (
        pod("master-0", ended(1, 9), phase="Failed"),
        pod("worker-0", ended(1, 10, told), phase="Failed"),
    )

    found = cluster_views.explained(_seen(job(failed(11)), *pods))

    assert found is not None
    assert found.error is not None
    assert (found.error.short, found.error.what) == ("worker-0", "KeyError: 'x'")
    assert "Traceback" in found.error.traceback


def test_a_replica_that_was_told_to_end_is_not_to_blame() -> None:
    removed = {"deletionTimestamp": at(38), "deletionGracePeriodSeconds": 30}
    pods = (
        pod("master-0", ended(143, 8), phase="Failed", metadata=removed),
        pod("worker-0", ended(1, 7), phase="Failed", metadata=removed),
    )

    found = cluster_views.explained(_seen(job(failed(9)), *pods))

    assert found is not None
    assert found.error is not None
    assert found.error.short == "worker-0"


def test_out_of_memory_is_named() -> None:
    pods = (pod("worker-0", ended(137, 7, reason="OOMKilled"), phase="Failed"),)

    found = cluster_views.explained(_seen(job(failed(9)), *pods))

    assert found is not None
    assert "(worker-0 on node-1) ran out of memory: it used more than" in found.summary


def test_a_pod_that_cannot_be_placed_is_why_the_job_waits() -> None:
    unscheduled = [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.",
        }
    ]
    waiting = pod("worker-0", {"waiting": {}}, phase="Pending", conditions=unscheduled)

    view = cluster_views.view(_seen(job({"conditions": [condition("Created", 0)]}), waiting))

    assert view.diagnosis is not None
    assert view.diagnosis.finding is Finding.WAITING
    assert view.why.startswith("worker-0: ")
    assert "nvidia.com/gpu" in view.why


def test_a_job_that_nobody_takes_up_says_so() -> None:
    view = cluster_views.view(_seen(job()))

    assert view.phase is Phase.CREATED
    assert "no operator has picked it up" in view.why


def test_an_object_that_is_no_job_is_shown_all_the_same() -> None:
    view = cluster_views.view(_seen(job({}, pytorchReplicaSpecs={"Worker": {"replicas": 1}})))

    assert (view.name, view.kind, view.replicas) == ("mnist", "PyTorchJob", ())


def test_the_status_of_another_operator_is_read_as_far_as_it_goes() -> None:
    kubeflow = {
        "conditions": [condition("Created", 0), condition("Running", 2)],
        "replicaStatuses": {"Worker": {"active": 1, "labelSelector": {"matchLabels": {}}, "selector": "a=b"}},
        "startTime": at(1),
        "lastReconcileTime": None,
        "completionTime": None,
    }

    assert cluster_views.status_of(job(kubeflow)).phase is Phase.RUNNING
    assert cluster_views.status_of(job({"conditions": None, "replicaStatuses": None})).phase is Phase.CREATED
    assert cluster_views.status_of(job({"conditions": "odd"})).phase is Phase.CREATED


def test_a_batch_job_is_followed_and_explained() -> None:
    status = {
        "conditions": [
            {
                "type": "Failed",
                "status": "True",
                "reason": "BackoffLimitExceeded",
                "message": "Job has reached the specified backoff limit",
                "lastTransitionTime": at(20),
            }
        ],
        "startTime": at(1),
        "failed": 2,
    }
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "pytorch", "image": "x"}]}}
    one = job(status, kind="Job", template=template, backoffLimit=1)
    owner = {"ownerReferences": [{"kind": "Job", "uid": "job-uid", "controller": True}]}
    pods = (
        pod("abc", ended(2, 5), phase="Failed", metadata={"name": "mnist-abc", "uid": "a", **owner}),
        pod("xyz", ended(2, 18), phase="Failed", metadata={"name": "mnist-xyz", "uid": "b", **owner}),
    )

    view = cluster_views.view(_seen(one, *pods))

    assert (view.phase, view.crashes, view.completed) == (Phase.FAILED, 2, EPOCH + 20)
    assert [one.phase for one in view.replicas] == [ReplicaPhase.FAILED]
    assert view.diagnosis is not None
    assert view.diagnosis.summary == "mnist failed: 0 on node-1 ended with exit code 2"


def test_events_come_in_their_order() -> None:
    events = (
        EventObject(reason="Later", message="b", lastTimestamp=at(5), count=3),
        EventObject(reason="Earlier", type="Warning", message="a", eventTime=at(2)),
    )

    found = cluster_views.recorded(events)

    assert [(one.reason, one.count, str(one.type)) for one in found] == [
        ("Earlier", 1, "Warning"),
        ("Later", 3, "Normal"),
    ]


@pytest.mark.parametrize("time", ["1.2.3", ".", "9" * 400, "1e5", "-1"])
def test_a_termination_message_that_somebody_made_up_does_not_end_the_verb(time: str) -> None:
    assert termination_log.report(f"bireme-report asked=1 time={time}\nValueError: x") is None


def test_the_last_words_of_a_rank_name_the_trainer_that_it_used() -> None:
    found = termination_log.report("bireme-report asked=0 trainer=lightning\n")

    assert found is not None
    assert (found.read_rank, found.trainer) == (False, "lightning")
