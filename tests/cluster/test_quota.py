"""What a large job does that its namespace has no room for, and what that costs others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bireme.core.replicas.slow_start import MOST_AT_ONCE
from tests.cluster.control_plane import Plane, plane
from tests.cluster.operator_fixtures import CRDS, Jobs, operator, until
from tests.cluster.test_operator import workers

REPLICAS = 500
QUOTA = 10
SMALL = 5
_REQUESTS = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@pytest.fixture(scope="module")
def server() -> Iterator[Plane]:
    with plane("quota") as one:
        for file in CRDS:
            one.asked("apply", "-f", str(file))
        one.asked("create", "namespace", "bireme-system")
        yield one


def test_a_job_larger_than_its_quota_floods_nobody_and_holds_up_no_small_job(
    server: Plane, tmp_path: Path
) -> None:
    crowded, beside = Jobs(server, "crowded"), Jobs(server, "beside")
    allow(crowded, QUOTA)
    with operator(server.kubeconfig, tmp_path / "log", "--leader-elect") as one:
        crowded.create(workers(REPLICAS))
        for number in range(SMALL):
            beside.create({**workers(1), "metadata": {"name": f"small-{number}"}})

        beside.pods_are(*(f"small-{number}-worker-0" for number in range(SMALL)))
        waiting = crowded.condition("tfjob/mnist", "Waiting")
        # By now the first tries after the refusal were made as well.
        until(lambda: crowded.object("tfjob/mnist")["status"]["bireme"]["refusal"]["failures"] >= 3)
        refused = refused_pods(server)
        assert one.process is not None
        assert one.process.poll() is None

    assert "exceeded quota: small" in waiting["message"]
    assert len(crowded.pods()) == QUOTA
    assert 1 <= refused <= 2 * MOST_AT_ONCE
    assert len(crowded.names("services")) <= QUOTA + MOST_AT_ONCE
    lease = server.object("-n", "bireme-system", "lease/bireme-operator")
    assert lease["spec"]["leaseTransitions"] == 1, "that of the beginning"


def test_a_job_is_completed_when_its_quota_is_raised(server: Plane, tmp_path: Path) -> None:
    jobs = Jobs(server, "raised")
    allow(jobs, 3)
    with operator(server.kubeconfig, tmp_path / "log"):
        jobs.create(workers(40))
        jobs.condition("tfjob/mnist", "Waiting")

        jobs.patch("resourcequota/small", {"spec": {"hard": {"pods": "100"}}})
        jobs.patch("resourcequota/small", {"status": {"hard": {"pods": "100"}}}, "--subresource=status")

        until(lambda: len(jobs.pods()) == 40, "all pods")
        until(lambda: "Waiting" not in jobs.conditions("tfjob/mnist"), "the trouble to be over")


def allow(jobs: Jobs, pods: int) -> None:
    """Limit the pods of a namespace; nobody but the API server itself counts them here."""
    hard = {"pods": str(pods)}
    jobs.create(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "small"},
            "spec": {"hard": hard},
        }
    )
    status = {"hard": hard, "used": {"pods": "0"}}
    jobs.patch("resourcequota/small", {"status": status}, "--subresource=status")


def refused_pods(server: Plane) -> int:
    """How many pods the API server refused to make."""
    counted: Counter[str] = Counter()
    for labels, value in _REQUESTS.findall(server.asked("get", "--raw", "/metrics")):
        said = dict(_LABEL.findall(labels))
        if said["resource"] == "pods" and said["verb"] == "POST":
            counted[said["code"]] += int(float(value))
    return counted["403"]
