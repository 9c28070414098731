"""What the Lease tells: which operator acts, and which kinds it serves."""

from __future__ import annotations

import time

import pytest

from bireme.backends.kubernetes import operators
from bireme.backends.kubernetes.client.api import Api
from bireme.backends.kubernetes.operators import Operator
from bireme.backends.kubernetes.submit.job_client import Served
from bireme.operator.leader_election import Leadership
from tests.unit.kubernetes.apiserver import ApiServer, asked

LEASES = "/apis/coordination.k8s.io/v1/leases"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/bireme-system/leases/bireme-operator"
OURS = Served({"MPIJob": ("kubeflow.org/v1", "kubeflow.org/v2beta1", "kubeflow.org/v1alpha2")})


def found(server: ApiServer, *kinds: str) -> dict[str, Operator]:
    lease = server.objects.get(LEASE)
    server.objects[LEASES] = {"metadata": {}, "items": [lease] if lease else []}
    return asked(server, lambda api: operators.find(api, OURS, kinds, "ml"))


def lead(server: ApiServer, *kinds: str, times: int = 1) -> None:
    async def ask(api: Api) -> None:
        for number in range(times):
            leadership = Leadership(api, "bireme-system", "bireme-operator", "me", time, kinds)
            await leadership.take()
            assert number or server.objects[LEASE]["spec"]["holderIdentity"] == "me"

    asked(server, ask)


@pytest.mark.parametrize("times", [1, 2])
def test_a_job_of_a_kind_that_the_operator_does_not_serve_is_told_so(times: int) -> None:
    server = ApiServer()
    lead(server, "PyTorchJob", times=times)

    states = found(server, "PyTorchJob", "TFJob")

    assert states == {"PyTorchJob": Operator.OURS, "TFJob": Operator.OTHER_KINDS}
    said = operators.sentence(states["TFJob"], "TFJob", "ml")
    assert "does not serve TFJob" in said
    assert "bireme install" in said


def test_the_next_leader_says_which_kinds_it_serves() -> None:
    server = ApiServer()
    lead(server, "PyTorchJob")

    lead(server, "PyTorchJob", "TFJob")

    assert found(server, "TFJob") == {"TFJob": Operator.OURS}


@pytest.mark.parametrize("annotations", [{}, {"bireme.io/kinds": ""}])
def test_an_operator_that_does_not_say_serves_all(annotations: dict[str, str]) -> None:
    server = ApiServer()
    lead(server, "PyTorchJob")
    server.objects[LEASE]["metadata"]["annotations"] = annotations

    assert found(server, "TFJob") == {"TFJob": Operator.OURS}


def test_without_a_leader_every_kind_waits() -> None:
    assert found(ApiServer(), "TFJob") == {"TFJob": Operator.ASLEEP}
