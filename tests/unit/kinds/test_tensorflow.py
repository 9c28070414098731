"""TFJob: TF_CONFIG in all its shapes, and who decides when the job has succeeded."""

from __future__ import annotations

import json

import pytest
from tests.unit import build
from tests.unit.build import book, container, declared, environment, job, place, role, tally

from bireme.kinds import tensorflow
from bireme.kinds.contract import Failed, ManifestProblem, Running, Succeeded, Tally, Undecided, Verdict
from bireme.model.job import Job
from bireme.model.replicas import Addresses
from bireme.model.status import Counts

ACTIVE, SUCCEEDED, FAILED = Counts(active=1), Counts(succeeded=1), Counts(failed=1)
RUNNING = Running("TFJob default/mnist is running.")
COMPLETED = Succeeded("TFJob default/mnist successfully completed.")


def test_every_replica_of_every_role_is_listed_with_roles_in_alphabetical_order() -> None:
    given = job("TFJob", role("Worker", 2), role("PS"), role("Evaluator"), role("Chief"), namespace="ml")

    assert environment(place(given, "worker", 1)) == [
        'TF_CONFIG={"cluster":{'
        '"chief":["mnist-chief-0.ml.svc:2222"],'
        '"evaluator":["mnist-evaluator-0.ml.svc:2222"],'
        '"ps":["mnist-ps-0.ml.svc:2222"],'
        '"worker":["mnist-worker-0.ml.svc:2222","mnist-worker-1.ml.svc:2222"]},'
        '"task":{"type":"worker","index":1},"environment":"cloud"}'
    ]


def test_a_master_is_called_master() -> None:
    given = job("TFJob", role("Master"), role("Worker"))

    assert environment(place(given, "master")) == [
        'TF_CONFIG={"cluster":{"master":["mnist-master-0.default.svc:2222"],'
        '"worker":["mnist-worker-0.default.svc:2222"]},'
        '"task":{"type":"master","index":0},"environment":"cloud"}'
    ]


def test_a_cluster_domain_is_appended_to_every_name() -> None:
    given = job("TFJob", role("Worker", 2))

    assert environment(place(given, "worker", 0, Addresses(domain="cluster.local"))) == [
        'TF_CONFIG={"cluster":{"worker":['
        '"mnist-worker-0.default.svc.cluster.local:2222","mnist-worker-1.default.svc.cluster.local:2222"]},'
        '"task":{"type":"worker","index":0},"environment":"cloud"}'
    ]


def test_each_role_has_the_port_that_its_main_container_declares() -> None:
    servers = role("PS", 1, container(name="tensorflow", ports={"tfjob-port": 3333}))
    workers = role("Worker", 1, container(name="side", ports={"tfjob-port": 4444}), container(), main="main")
    given = job("TFJob", servers, workers)

    assert environment(place(given, "ps")) == [
        'TF_CONFIG={"cluster":{"ps":["mnist-ps-0.default.svc:3333"],'
        '"worker":["mnist-worker-0.default.svc:2222"]},'
        '"task":{"type":"ps","index":0},"environment":"cloud"}'
    ]


def test_here_the_addresses_come_from_the_book() -> None:
    given = job("TFJob", role("PS"), role("Worker", 2))

    assert environment(place(given, "worker", 0, book(given, first=40000))) == [
        'TF_CONFIG={"cluster":{"ps":["127.0.0.1:40000"],"worker":["127.0.0.1:40001","127.0.0.1:40002"]},'
        '"task":{"type":"worker","index":0},"environment":"cloud"}'
    ]


def test_a_single_replica_is_told_nothing() -> None:
    assert environment(place(job("TFJob", role("Worker")), "worker")) == []


@pytest.mark.parametrize(
    ("role_name", "index", "config"),
    [
        (
            "worker",
            1,
            '{"cluster":{"worker":{"1":"mnist-worker-1.default.svc:2222"},'
            '"ps":["mnist-ps-0.default.svc:2222","mnist-ps-1.default.svc:2222"]},'
            '"task":{"type":"worker","index":1}}',
        ),
        (
            "ps",
            1,
            '{"cluster":{"worker":{},"ps":["mnist-ps-1.default.svc:2222"]},"task":{"type":"ps","index":1}}',
        ),
        ("chief", 0, '{"cluster":{"worker":{},"ps":[]},"task":{"type":"chief","index":0}}'),
    ],
)
def test_where_workers_are_dynamic_a_replica_knows_only_what_it_must(
    role_name: str, index: int, config: str
) -> None:
    given = job(
        "TFJob",
        role("Chief"),
        role("PS", 2),
        role("Worker", 2),
        options={"enableDynamicWorker": True},
    )

    assert environment(place(given, role_name, index)) == [f"TF_CONFIG={config}"]


def test_dynamic_workers_without_parameter_servers_have_an_empty_list() -> None:
    given = job("TFJob", role("Worker", 2), options={"enableDynamicWorker": True})

    config = tensorflow.KIND.wire(place(given, "worker"))[0].value

    assert json.loads(config)["cluster"]["ps"] == []


WITH_CHIEF = job("TFJob", role("Worker", 2), role("PS"), role("Chief"))
WITH_MASTER = job("TFJob", role("Worker", 2), role("Master"))
WORKERS = job("TFJob", role("Worker", 2), role("PS"))
ALL_WORKERS = job("TFJob", role("Worker", 2), options={"successPolicy": "AllWorkers"})
DYNAMIC = job("TFJob", role("Worker", 2), options={"enableDynamicWorker": True})
DYNAMIC_CHIEF = job("TFJob", role("Worker", 2), role("Chief"), options={"enableDynamicWorker": True})
EVALUATOR = job("TFJob", role("Evaluator"))
SERVERS = job("TFJob", role("PS", 2))
FIRST = ("mnist-worker-0",)
SECOND = ("mnist-worker-1",)


def failed(text: str) -> Failed:
    return Failed(f"TFJob default/mnist has failed because {text} replica(s) failed.")


@pytest.mark.parametrize(
    ("given", "seen", "verdict"),
    [
        (WITH_CHIEF, tally(), Undecided()),
        (WITH_CHIEF, tally(worker=Counts(active=2), ps=ACTIVE), Undecided()),
        (WITH_CHIEF, tally(chief=ACTIVE), RUNNING),
        (WITH_CHIEF, tally(chief=SUCCEEDED, worker=Counts(active=2)), COMPLETED),
        (WITH_CHIEF, tally(FIRST + SECOND, chief=ACTIVE, worker=Counts(succeeded=2)), RUNNING),
        (WITH_CHIEF, tally(FIRST, chief=ACTIVE, worker=Counts(active=1, succeeded=1)), RUNNING),
        (WITH_CHIEF, tally(chief=FAILED, worker=Counts(failed=2)), failed("1 Chief")),
        (WITH_CHIEF, tally(chief=ACTIVE, worker=FAILED, ps=FAILED), failed("1 PS")),
        (WITH_CHIEF, tally(chief=SUCCEEDED, ps=FAILED), COMPLETED),
        (WITH_MASTER, tally(master=ACTIVE), RUNNING),
        (WITH_MASTER, tally(master=SUCCEEDED), COMPLETED),
        (WORKERS, tally(ps=ACTIVE), Undecided()),
        (WORKERS, tally(worker=ACTIVE), RUNNING),
        (WORKERS, tally(FIRST, worker=Counts(active=1, succeeded=1)), COMPLETED),
        (WORKERS, tally(SECOND, worker=Counts(active=1, succeeded=1)), RUNNING),
        (WORKERS, tally(FIRST + SECOND, worker=Counts(succeeded=2), ps=ACTIVE), COMPLETED),
        (WORKERS, tally(worker=Counts(active=1, failed=1)), failed("1 Worker")),
        (ALL_WORKERS, tally(FIRST, worker=Counts(active=1, succeeded=1)), RUNNING),
        (ALL_WORKERS, tally(FIRST + SECOND, worker=Counts(succeeded=2)), COMPLETED),
        (DYNAMIC, tally(worker=Counts(active=1, failed=1)), RUNNING),
        (DYNAMIC, tally(worker=Counts(failed=2)), failed("2 Worker")),
        (DYNAMIC, tally(SECOND, worker=Counts(succeeded=1, failed=1)), failed("1 Worker")),
        (DYNAMIC_CHIEF, tally(chief=ACTIVE, worker=Counts(failed=2)), RUNNING),
        (EVALUATOR, tally(evaluator=ACTIVE), RUNNING),
        (EVALUATOR, tally(evaluator=SUCCEEDED), COMPLETED),
        (SERVERS, tally(("mnist-ps-0",), ps=Counts(active=1, succeeded=1)), RUNNING),
        (SERVERS, tally(("mnist-ps-0", "mnist-ps-1"), ps=Counts(succeeded=2)), COMPLETED),
    ],
)
def test_outcome(given: Job, seen: Tally, verdict: Verdict) -> None:
    assert tensorflow.KIND.outcome(given, seen) == verdict


@pytest.mark.parametrize(
    ("given", "leaders"),
    [
        (WITH_CHIEF, ["chief-0"]),
        (WITH_MASTER, ["master-0"]),
        (WORKERS, ["worker-0"]),
    ],
)
def test_the_chief_leads_and_without_one_the_first_worker(given: Job, leaders: list[str]) -> None:
    leading = [
        f"{one.name}-{index}"
        for one in given.roles
        for index in range(one.replicas)
        if tensorflow.KIND.is_leader(given, one, index)
    ]

    assert leading == leaders


def test_two_chiefs_are_refused_whatever_they_are_called() -> None:
    given = job("TFJob", role("Chief"), role("Master"), role("Worker"))

    assert list(tensorflow.KIND.validate(given)) == [
        ManifestProblem(
            "spec.tfReplicaSpecs",
            "Forbidden: must not have more than 1 Chief or Master role",
            "keep one of Chief and Master",
        )
    ]


@pytest.mark.parametrize("replicas", [0, 2])
def test_a_chief_is_one(replicas: int) -> None:
    given = job("TFJob", role("Chief", replicas), role("Worker"))

    problems = [(one.field, one.text) for one in tensorflow.KIND.validate(given)]

    assert problems == [("spec.tfReplicaSpecs[Chief].replicas", "Forbidden: must be 1")]


def test_an_unknown_success_policy_is_refused() -> None:
    given = job("TFJob", role("Worker"), options={"successPolicy": "AllWorker"})

    problems = [(one.field, one.text) for one in tensorflow.KIND.validate(given)]

    assert problems == [
        (
            "spec.successPolicy",
            'Unsupported value: "AllWorker": supported values: "", "Default", "AllWorkers"',
        )
    ]


def test_a_usual_job_has_no_problem() -> None:
    assert list(tensorflow.KIND.validate(WITH_CHIEF)) == []


def test_defaults_are_written_down() -> None:
    assert build.options(WORKERS) == {"successPolicy": "", "enableDynamicWorker": False}
    assert declared(WORKERS, "worker").replicas == 2
