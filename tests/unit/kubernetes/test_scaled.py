"""What is sent to a cluster to change the number of replicas of a job."""

from __future__ import annotations

import msgspec

from bireme.backends.kubernetes.objects.job_objects import JobObject
from bireme.backends.kubernetes.submit import job_client

MASTER = {"replicas": 1, "template": {"spec": {"containers": [{"name": "pytorch", "image": "master"}]}}}
WORKER = {"replicas": 2, "template": {"spec": {"containers": [{"name": "pytorch", "image": "worker"}]}}}


def _job(**roles: object) -> JobObject:
    spec = {"pytorchReplicaSpecs": roles}
    return JobObject("kubeflow.org/v1", "PyTorchJob", spec=msgspec.Raw(msgspec.json.encode(spec)))


def test_a_role_that_is_scaled_to_0_keeps_its_template() -> None:
    change = job_client.scaled(_job(Master=MASTER, Worker=WORKER), {"master": 1, "worker": 0})

    assert change == {"pytorchReplicaSpecs": {"Worker": {"replicas": 0}}}


def test_a_script_with_one_rank_has_no_workers_and_with_two_it_has_one_like_its_first() -> None:
    down = job_client.scaled(_job(Master=MASTER, Worker=WORKER), {"master": 1}, ["worker"])
    up = job_client.scaled(_job(Master=MASTER), {"master": 1, "worker": 1})

    assert down == {"pytorchReplicaSpecs": {"Worker": None}}
    assert up == {"pytorchReplicaSpecs": {"Worker": MASTER}}
