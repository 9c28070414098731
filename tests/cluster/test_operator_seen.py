"""Users are told whether an operator takes up their jobs, however it was started."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from random import SystemRandom

import pytest
import yaml

from bireme.backends.kubernetes.client.access import find
from bireme.backends.kubernetes.client.api import Api
from bireme.backends.kubernetes.operators import NAMESPACES, UNELECTED_LABELS
from bireme.operator.controller import Scope
from bireme.operator.heartbeats import Heartbeat
from bireme.operator.install import operator_objects
from tests.cli.commands import Cli
from tests.cluster.control_plane import Json, Plane, plane
from tests.cluster.operator_fixtures import CRDS, Jobs, operator, until
from tests.cluster.test_operator import workers

FOREIGN, KILLED, THIRD, FOURTH, _ = operator_objects.UNELECTED
NOW = "2100-01-01T00:00:00.000000Z"
PATCH = json.dumps({"spec": {"holderIdentity": "thief", "renewTime": NOW}})


@pytest.fixture(scope="module")
def server() -> Iterator[Plane]:
    with plane("seen") as one:
        for file in CRDS:
            one.asked("apply", "-f", str(file))
        one.asked("create", "namespace", "bireme-system")
        yield one


def test_an_operator_without_election_is_seen_while_it_lives(server: Plane, tmp_path: Path) -> None:
    bireme = Cli(tmp_path / "home", tmp_path)

    def seen() -> str:
        words = ("doctor", "--on", "kubernetes", "--json")
        found: Json = json.loads(bireme(*words, KUBECONFIG=str(server.kubeconfig)).out)
        return str(found["cluster"]["operator"])

    assert seen() == ""
    # Outside of a cluster it may have no namespace of its own.
    options = ("--no-leader-elect", "--lease-namespace", "nowhere")
    with operator(server.kubeconfig, tmp_path / "log", *options) as one:
        until(seen, "the operator to be seen")
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(workers(1)))
        ran = bireme(
            *("run", "-f", "job.yaml", "--detach", "--on", "kubernetes", "--name", "seen"),
            KUBECONFIG=str(server.kubeconfig),
        )

        assert one.stop() == 0

    assert ran.status == 0, ran.err
    assert "no operator of Bireme was seen" not in ran.err
    assert seen() == ""


def test_a_job_in_a_namespace_that_no_operator_watches_is_told_so(server: Plane, tmp_path: Path) -> None:
    Jobs(server, "watched")
    bireme = Cli(tmp_path / "home", tmp_path)
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(workers(1)))

    with operator(server.kubeconfig, tmp_path / "log", "--no-leader-elect", "--namespace", "watched"):
        until(lambda: "unelected" in server.asked("get", "leases", "-A", "-o", "name"), "its lease")
        ran = bireme(
            *("run", "-f", "job.yaml", "--detach", "--on", "kubernetes", "--name", "unwatched"),
            KUBECONFIG=str(server.kubeconfig),
        )

    assert "does not watch namespace default" in ran.err


def test_two_operators_of_one_scope_without_election_are_both_seen(server: Plane, tmp_path: Path) -> None:
    bireme = Cli(tmp_path / "home", tmp_path)

    def told() -> str:
        done = bireme("doctor", "--on", "kubernetes", KUBECONFIG=str(server.kubeconfig))
        return done.out + done.err

    with operator(server.kubeconfig, tmp_path / "one"), operator(server.kubeconfig, tmp_path / "two") as two:
        until(lambda: "2 operators act on namespace default at once" in told(), "both to be seen")
        two.stop()
        assert "operators act on namespace" not in told()


def test_an_operator_for_all_namespaces_is_told_of_one_that_watches_a_single_one(
    server: Plane, tmp_path: Path
) -> None:
    def holder() -> str:
        found: Json = json.loads(server.asked("get", "leases", "-n", "bireme-system", "-o", "json"))
        scoped = [one for one in found["items"] if one["metadata"]["annotations"][NAMESPACES] == "default"]
        return str(scoped[0]["spec"]["holderIdentity"]) if scoped else ""

    with operator(server.kubeconfig, tmp_path / "one", "--no-leader-elect", "--namespace", "default"):
        first = until(holder, "its lease")
        with operator(server.kubeconfig, tmp_path / "two") as second:
            until(second.log.read_text, "its first line")
            warned = second.lines()[0]

    assert warned["message"] == "another operator acts already, or ended just now"
    assert first in warned["holders"]


def test_the_lease_of_an_operator_that_was_killed_is_taken_over_and_others_are_let_be(server: Plane) -> None:
    def leases() -> dict[str, str]:
        found: Json = json.loads(server.asked("get", "leases", "-n", "home", "-o", "json"))
        return {one["metadata"]["name"]: one["spec"]["holderIdentity"] for one in found["items"]}

    async def story() -> None:
        async with Api(find(time, SystemRandom(), kubeconfig=str(server.kubeconfig))) as api:
            one, two = (Heartbeat(api, "home", name, Scope(), time) for name in ("one", "two"))
            await one.beat()
            await two.beat()
            assert leases() == {FOREIGN: "somebody", KILLED: "one", THIRD: "two"}
            server.asked("patch", "lease", THIRD, "-n", "home", "--type=merge", "-p", PATCH)
            await two.beat()  # Another took its lease while it was suspended.
            assert leases() == {FOREIGN: "somebody", KILLED: "one", THIRD: "thief", FOURTH: "two"}
            await one.leave()
            await two.leave()

    server.asked("create", "namespace", "home")
    there = yaml.safe_dump_all([lease(FOREIGN, "somebody", {}), lease(KILLED)])
    server.asked("apply", "-n", "home", "-f", "-", stdin=there)

    asyncio.run(story())

    assert leases() == {FOREIGN: "somebody", THIRD: "thief"}


def lease(name: str, holder: str = "killed", labels: dict[str, str] = UNELECTED_LABELS) -> Json:
    """One that was not renewed for long."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "home", "labels": labels},
        "spec": {"holderIdentity": holder, "renewTime": "2020-01-01T00:00:00.000000Z"},
    }
