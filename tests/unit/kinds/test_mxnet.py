"""MXJob: all replicas meet at the scheduler, whose end is the job's."""

from __future__ import annotations

import json

import pytest
from tests.unit.build import book, declared, environment, job, place, role, tally

from bireme.kinds import mxnet
from bireme.kinds.contract import Failed, Running, Succeeded, Tally, Undecided, Verdict
from bireme.model.job import Job
from bireme.model.status import Counts

TRAIN = {"jobMode": "MXTrain"}
JOB = job("MXJob", role("Scheduler"), role("Server"), role("Worker", 2), name="dense", options=TRAIN)
ALONE = job("MXJob", role("Worker"), name="dense", options=TRAIN)


def variables(given: Job, name: str, index: int = 0) -> dict[str, str]:
    return dict(line.split("=", 1) for line in environment(place(given, name, index)))


def test_every_replica_knows_the_scheduler_its_part_and_the_numbers() -> None:
    wired = variables(JOB, "worker", 1)
    wired.pop("MX_CONFIG")

    assert wired == {
        "DMLC_PS_ROOT_PORT": "9091",
        "DMLC_PS_ROOT_URI": "dense-scheduler-0",
        "DMLC_NUM_SERVER": "1",
        "DMLC_NUM_WORKER": "2",
        "DMLC_ROLE": "worker",
        "DMLC_USE_KUBERNETES": "1",
        "DMLC_WORKER_ID": "1",
    }


def test_only_workers_have_a_number() -> None:
    assert variables(JOB, "server")["DMLC_ROLE"] == "server"
    assert "DMLC_WORKER_ID" not in variables(JOB, "server")


def test_the_configuration_names_every_replica() -> None:
    assert json.loads(variables(JOB, "worker", 1)["MX_CONFIG"]) == {
        "cluster": {
            "scheduler": [{"url": "dense-scheduler-0", "port": 9091}],
            "server": [{"url": "dense-server-0", "port": 9091}],
            "worker": [{"url": f"dense-worker-{index}", "port": 9091} for index in range(2)],
        },
        "labels": {"scheduler": "", "server": "", "worker": ""},
        "task": {"type": "worker", "index": 1},
    }


def test_here_the_scheduler_comes_from_the_book() -> None:
    wired = environment(place(JOB, "worker", 0, book(JOB, first=40000)))

    assert {"DMLC_PS_ROOT_URI=127.0.0.1", "DMLC_PS_ROOT_PORT=40000"} <= set(wired)


def test_a_worker_alone_meets_no_other() -> None:
    assert "DMLC_PS_ROOT_URI" not in variables(ALONE, "worker")
    assert mxnet.KIND.rendezvous_replica(ALONE) == ""
    assert mxnet.KIND.rendezvous_replica(JOB) == "dense-scheduler-0"


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        (tally(), Undecided()),
        (tally(worker=Counts(active=2)), Undecided()),
        (tally(scheduler=Counts(active=1)), Running("MXJob dense is running.")),
        (tally(scheduler=Counts(succeeded=1)), Succeeded("MXJob dense is successfully completed.")),
        (
            tally(scheduler=Counts(active=1), worker=Counts(failed=1)),
            Failed("mxjob dense is failed because 1 Worker replica(s) failed."),
        ),
    ],
)
def test_outcome(seen: Tally, verdict: Verdict) -> None:
    assert mxnet.KIND.outcome(JOB, seen) == verdict


def test_a_worker_alone_decides() -> None:
    assert mxnet.KIND.outcome(ALONE, tally(worker=Counts(active=1))) == Running("MXJob dense is running.")
    done = mxnet.KIND.outcome(ALONE, tally(worker=Counts(succeeded=1)))
    assert done == Succeeded("MXJob dense is successfully completed.")


def test_servers_have_the_master_label() -> None:
    leaders = [one.name for one in JOB.roles if mxnet.KIND.is_leader(JOB, declared(JOB, one.name), 0)]

    assert leaders == ["server"]


def test_two_schedulers_and_a_missing_mode_are_refused() -> None:
    wrong = job("MXJob", role("Scheduler", 2), role("Worker"))

    assert [(one.field, one.text) for one in mxnet.KIND.validate(wrong)] == [
        ("spec.mxReplicaSpecs[Scheduler].replicas", "Forbidden: more than 1 scheduler found"),
        ("spec.jobMode", "Required value: MXTrain or MXTune"),
    ]
