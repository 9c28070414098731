"""How operators come, go and follow each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.control_plane import Plane, plane
from tests.cluster.operator_fixtures import CRDS, Jobs, Operator, operator, until
from tests.cluster.test_operator import workers

LEASE = "lease/bireme-operator"


@pytest.fixture(scope="module")
def server() -> Iterator[Plane]:
    with plane("life") as one:
        for file in CRDS:
            one.asked("apply", "-f", str(file))
        one.asked("create", "namespace", "bireme-system")
        yield one


def leads(one: Operator) -> bool:
    return any(line["message"] == "leading" for line in one.lines())


def watches(one: Operator) -> bool:
    return any(line["message"] == "watching" for line in one.lines())


def test_a_killed_operator_is_followed_by_one_that_carries_on(server: Plane, tmp_path: Path) -> None:
    jobs = Jobs(server, "killed")
    with operator(server.kubeconfig, tmp_path / "log") as one:
        jobs.create(workers(2, restart="OnFailure"))
        jobs.pods_are("mnist-worker-0", "mnist-worker-1")
        jobs.run("mnist-worker-0", "mnist-worker-1")
        jobs.becomes("tfjob/mnist", "Created", "Running")

        one.kill()
        jobs.play("mnist-worker-1", {"phase": "Failed", "reason": "Evicted"})
        one.start()

        until(lambda: jobs.object("tfjob/mnist")["status"]["bireme"].get("evictions") == 1)
        jobs.pods_are("mnist-worker-0", "mnist-worker-1")
        jobs.run("mnist-worker-1")
        jobs.end("mnist-worker-0", 0)
        jobs.condition("tfjob/mnist", "Succeeded")
        assert jobs.object("tfjob/mnist")["status"]["bireme"]["evictions"] == 1


def test_of_two_operators_one_acts_and_the_other_follows_when_it_leaves(
    server: Plane, tmp_path: Path
) -> None:
    with operator(server.kubeconfig, tmp_path / "first", "--leader-elect") as first:
        until(lambda: leads(first), "the first to lead")
        with operator(server.kubeconfig, tmp_path / "second", "--leader-elect") as second:
            until(lambda: any(line["message"] == "waiting for the lead" for line in second.lines()))
            assert not watches(second)

            assert first.stop() == 0

            until(lambda: leads(second), "the second to lead")
            holder = server.object("-n", "bireme-system", LEASE)["spec"]["holderIdentity"]
            assert holder == next(line["identity"] for line in second.lines() if line["message"] == "leading")


def test_an_operator_that_lost_its_lease_stops(server: Plane, tmp_path: Path) -> None:
    with operator(server.kubeconfig, tmp_path / "log", "--leader-elect") as one:
        until(lambda: watches(one), "the operator to act")

        taken = '{"spec": {"holderIdentity": "somebody-else", "leaseDurationSeconds": 60}}'
        server.asked("-n", "bireme-system", "patch", LEASE, "--type=merge", "-p", taken)

        assert one.process is not None
        assert one.process.wait(20) == 5
    assert "is held by another operator" in (tmp_path / "log").read_text()


def test_a_lease_that_cannot_be_made_is_said_in_a_sentence(server: Plane, tmp_path: Path) -> None:
    options = ("--leader-elect", "--lease-namespace", "nowhere")
    with operator(server.kubeconfig, tmp_path / "log", *options) as one:
        assert one.process is not None
        assert one.process.wait(20) == 2

    told = (tmp_path / "log").read_text()
    assert 'namespaces "nowhere" not found' in told
    assert "--lease-namespace" in told
    assert "Traceback" not in told


def test_only_the_chosen_namespaces_are_served(server: Plane, tmp_path: Path) -> None:
    ours, theirs = Jobs(server, "ours"), Jobs(server, "theirs")
    options = ("--no-leader-elect", "--namespace", "ours")
    with operator(server.kubeconfig, tmp_path / "log", *options):
        theirs.create(workers(1))
        ours.create(workers(1))

        ours.pods_are("mnist-worker-0")
        assert theirs.pods() == []


def test_a_gang_scheduler_that_the_cluster_does_not_have_is_named_at_once(
    server: Plane, tmp_path: Path
) -> None:
    options = ("--no-leader-elect", "--gang-scheduler-name", "volcano")
    with operator(server.kubeconfig, tmp_path / "log", *options) as one:
        assert one.process is not None
        assert one.process.wait(60) == 2
    assert (
        "volcano needs podgroups.scheduling.volcano.sh, which this cluster does not define"
        in (tmp_path / "log").read_text()
    )
