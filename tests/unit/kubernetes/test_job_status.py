"""How a status is written in a cluster, and read back."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from bireme.backends.kubernetes.objects import job_status
from bireme.model.status import Condition, ConditionType, Counts, RefusedStart, Retry, Sighting, Status
from tests.unit import build

JOB = replace(build.job("PyTorchJob", build.role("Master"), build.role("Worker", 2)), namespace="team")
BUSY = Status(
    conditions=(
        Condition(
            ConditionType.CREATED, True, "PyTorchJobCreated", "PyTorchJob mnist is created.", 10.0, 10.0
        ),
        Condition(
            ConditionType.RUNNING, True, "PyTorchJobRunning", "PyTorchJob mnist is running.", 12.0, 12.0
        ),
    ),
    replicas={"Master": Counts(active=1), "Worker": Counts(active=2)},
    started=11.0,
    attempt=2,
    crashes=1,
    evictions=1,
    sightings={"mnist-master-0": Sighting("u-1", losses=1)},
    done=("mnist-worker-1",),
    retries={"": Retry(1, 20.0)},
    refusal=RefusedStart("mnist-worker-0", 2, 21.0),
    fence=1,
)


def written(status: Status, now: float = 100.0) -> bytes:
    return msgspec.json.encode(job_status.written(JOB, status, now))


@pytest.mark.parametrize("status", [Status(), BUSY, replace(BUSY, completed=99.0, trouble="no quota")])
def test_what_was_written_is_read_back(status: Status) -> None:
    declared = {"Master": Counts(), "Worker": Counts()} | status.replicas

    assert job_status.read(written(status)) == replace(status, replicas=declared)


def test_a_job_without_a_status_is_new() -> None:
    assert job_status.read(b"") == Status()


def test_conditions_stand_as_the_contract_has_them() -> None:
    condition = job_status.written(JOB, BUSY, 100.0)["conditions"][1]

    assert condition == {
        "type": "Running",
        "status": "True",
        "reason": "PyTorchJobRunning",
        "message": "PyTorchJob mnist is running.",
        "lastUpdateTime": "1970-01-01T00:00:12Z",
        "lastTransitionTime": "1970-01-01T00:00:12Z",
    }


def test_the_pods_of_a_role_that_can_be_scaled_are_selectable() -> None:
    counts = job_status.written(JOB, BUSY, 100.0)["replicaStatuses"]["Worker"]

    assert counts == {
        "active": 2,
        "selector": "training.kubeflow.org/job-name=mnist,"
        "training.kubeflow.org/operator-name=pytorchjob-controller,"
        "training.kubeflow.org/replica-type=worker",
    }


def test_why_a_job_cannot_go_on_is_its_last_condition_and_no_part_of_the_memory() -> None:
    stuck = replace(BUSY, trouble="mnist-worker-0: no node has 4 cpu")

    last = job_status.written(JOB, stuck, 100.0)["conditions"][-1]

    assert (last["type"], last["reason"], last["message"]) == (
        "Waiting",
        "PyTorchJobWaiting",
        "mnist-worker-0: no node has 4 cpu",
    )
    assert job_status.read(written(stuck)).conditions == BUSY.conditions


def test_a_status_that_another_operator_wrote_is_understood() -> None:
    theirs = b"""{"conditions": [{"type": "Succeeded", "status": "True", "reason": "JobSucceeded",
        "message": "done", "lastUpdateTime": "2024-05-01T10:00:00Z", "lastTransitionTime": null}],
        "replicaStatuses": {"Worker": {"succeeded": 2, "labelSelector": {}}}, "completionTime": null}"""

    assert job_status.read(theirs).phase == "Succeeded"
