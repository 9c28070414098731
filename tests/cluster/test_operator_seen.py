"""Users are told whether an operator takes up their jobs, however it was started."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli.commands import Cli
from tests.cluster.operating import CRDS, Jobs, operator, until
from tests.cluster.planes import Json, Plane, plane
from tests.cluster.test_operator import workers


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
