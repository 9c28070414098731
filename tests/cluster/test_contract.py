"""The same behaviours on both backends, through the same client."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bireme import Client
from bireme.model.status import ConditionType, Phase
from bireme.sdk.client import JobHandle
from tests.cluster import operator_fixtures
from tests.cluster.harness import PYTHON, Cluster, Json, Kubectl
from tests.cluster.operator_fixtures import CRDS, Operator, manifest, until

LONG = 120.0
TELL = "import os; print('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'], flush=True)"
MEET = """
import os, socket, time
rank, address = int(os.environ["RANK"]), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    server = socket.create_server(("", address[1]))
    peer, _ = server.accept()
    peer.sendall(b"hello from 0")
    print("heard", peer.recv(99).decode(), flush=True)
else:
    for _ in range(600):
        try:
            peer = socket.create_connection(address)
            break
        except OSError:
            time.sleep(0.1)
    print("heard", peer.recv(99).decode(), flush=True)
    peer.sendall(b"hello from 1")
"""
FAIL_ONCE = """
import os, sys, time
print("attempt", os.environ["TORCHELASTIC_RESTART_COUNT"], flush=True)
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    if os.environ["RANK"] == "1":
        raise RuntimeError("out of luck")
    time.sleep(60)
"""
WAIT = "import time; print('up', flush=True); time.sleep(300)"


class Place:
    """A client of one backend, and a manifest that fits it."""

    def __init__(self, client: Client, python: str, backend: str) -> None:
        self.client, self._python, self.backend = client, python, backend
        self.started: list[JobHandle] = []

    def submit(self, program: str, *, name: str = "mnist", **given: Json) -> JobHandle:
        (job,) = self.client.submit(self.job(program, name=name, **given))
        self.started.append(job)
        return job

    def job(
        self, program: str, *, name: str, workers: int = 1, gang: bool = False, policy: Json = None
    ) -> Json:
        container = {"name": "pytorch", "image": PYTHON, "command": [self._python, "-c", program]}
        template = {"spec": {"containers": [container], "terminationGracePeriodSeconds": 1}}
        role = {"restartPolicy": "Never", "template": template}
        one = manifest(
            "PyTorchJob",
            "pytorchReplicaSpecs",
            name=name,
            policy=policy,
            Master=role,
            Worker={**role, "replicas": workers},
        )
        if gang:
            notes = {"bireme.io/restart": "gang", "bireme.io/environment": "torchrun"}
            one["metadata"]["annotations"] = notes
        return one


@pytest.fixture(scope="module")
def operator(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    for file in CRDS:
        cluster.kubectl("apply", "-f", str(file))
    with operator_fixtures.operator(cluster.kubeconfig, tmp_path_factory.mktemp("operator") / "log") as one:
        yield one


@pytest.fixture(params=["local", "kubernetes"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "local":
        client, python = Client(tmp_path / "home", on="local"), sys.executable
    else:
        request.getfixturevalue("operator")
        kubectl: Kubectl = request.getfixturevalue("kubectl")
        client, python = (
            Client(
                tmp_path / "home",
                on="kubernetes",
                kubeconfig=str(kubectl.kubeconfig),
                namespace=kubectl.namespace,
            ),
            "python3",
        )
    one = Place(client, python, request.param)
    yield one
    for job in one.started:
        job.remove()


def lines(job: JobHandle) -> list[str]:
    return sorted(f"{line.replica.removeprefix('mnist-')}: {line.text}" for line in job.logs())


def test_a_job_succeeds_and_leaves_its_lines(place: Place) -> None:
    job = place.submit(TELL)

    view = job.wait(LONG)

    assert view.phase is Phase.SUCCEEDED
    told = [one.type for one in view.conditions]
    assert (told[0], told[-1]) == (ConditionType.CREATED, ConditionType.SUCCEEDED)
    assert "master-0: rank 0 of 2" in lines(job)


def test_replicas_find_each_other(place: Place) -> None:
    job = place.submit(MEET)

    assert job.wait(LONG).phase is Phase.SUCCEEDED

    assert "master-0: heard hello from 1" in lines(job)


def test_a_failure_is_told_with_its_rank_and_exit_code(place: Place) -> None:
    job = place.submit("raise SystemExit(3)")

    view = job.wait(LONG)

    assert view.phase is Phase.FAILED
    assert view.diagnosis is not None
    assert "exit code 3" in view.diagnosis.summary


def test_a_gang_starts_anew_and_succeeds(place: Place) -> None:
    job = place.submit(FAIL_ONCE, gang=True)

    view = job.wait(LONG)

    assert view.phase is Phase.SUCCEEDED
    assert (view.attempt, view.crashes, view.evictions) == (1, 1, 0)
    assert "master-0: attempt 1" in lines(job)


def test_a_crash_too_many_fails_the_job(place: Place) -> None:
    job = place.submit("raise SystemExit(1)", gang=True, policy={"backoffLimit": 1})

    view = job.wait(LONG)

    assert (view.phase, view.crashes) == (Phase.FAILED, 2)
    assert (
        view.conditions[-1].message
        == "Job mnist has failed because it has reached the specified backoff limit"
    )


def test_a_job_is_stopped_and_resumed(place: Place) -> None:
    job = place.submit(WAIT)
    until(lambda: job.view().phase is Phase.RUNNING, "the job to run")

    stopped = job.stop()
    job.resume()

    assert stopped.phase is Phase.SUSPENDED
    until(lambda: job.view().phase is Phase.RUNNING and job.view().attempt == 1, "the next attempt")


def test_a_job_is_scaled_up_and_down(place: Place) -> None:
    job = place.submit(WAIT)
    until(lambda: len(job.view().replicas) == 2, "two replicas")

    job.scale(worker=3)
    until(lambda: len(job.view().replicas) == 4, "four replicas")
    job.scale(worker=1)

    until(lambda: len(job.view().replicas) == 2, "two replicas again")


def test_a_deadline_ends_the_job(place: Place) -> None:
    job = place.submit(WAIT, policy={"activeDeadlineSeconds": 3, "cleanPodPolicy": "All"})

    view = job.wait(LONG)

    assert view.phase is Phase.FAILED
    assert "active longer than specified deadline" in view.conditions[-1].message


def test_a_removed_job_is_gone(place: Place) -> None:
    job = place.submit(WAIT)
    until(lambda: job.view().phase is Phase.RUNNING, "the job to run")

    job.remove()
    place.started.clear()

    assert place.client.jobs(all=True) == ()


def test_lines_are_followed_to_the_end(place: Place) -> None:
    job = place.submit("import time\nfor i in range(5): print(i, flush=True); time.sleep(0.3)")

    followed = [line.text for line in job.logs("master-0", follow=True)]

    assert followed == ["0", "1", "2", "3", "4"]
