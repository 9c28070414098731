"""Tolerations: who asks for a device may run where nodes are kept for it."""

from __future__ import annotations

import pytest

from bireme.backends.kubernetes.objects.pod_builder import missing_tolerations, tolerates
from bireme.model.job import Role
from bireme.model.pods import Resources
from tests.unit.build import container, role


def asking(*devices: str, count: int = 1) -> Role:
    return role("Worker", 1, container(limits=Resources(devices=dict.fromkeys(devices, count))))


def test_every_device_is_tolerated_in_any_effect() -> None:
    wanted = asking("nvidia.com/gpu", "rdma/hca")

    assert missing_tolerations(wanted, []) == [
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "rdma/hca", "operator": "Exists"},
    ]


@pytest.mark.parametrize(
    "wanted", [asking(), asking("nvidia.com/gpu", count=0), asking("kubernetes.io/thing")]
)
def test_who_asks_for_no_device_gets_nothing(wanted: Role) -> None:
    assert missing_tolerations(wanted, []) == []


@pytest.mark.parametrize(
    "written",
    [
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"},
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"operator": "Exists"},
    ],
)
def test_what_the_author_wrote_is_left_alone(written: dict[str, str]) -> None:
    assert missing_tolerations(asking("nvidia.com/gpu"), [written]) == []


@pytest.mark.parametrize(
    ("toleration", "holds"),
    [
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "gpu", "operator": "Equal", "value": "yes"}, True),
        ({"key": "gpu", "value": "yes"}, True),
        ({"key": "gpu", "value": "no"}, False),
        ({"key": "fpga", "operator": "Exists"}, False),
        ({"operator": "Exists"}, True),
        ({}, False),
    ],
)
def test_a_taint_is_tolerated_as_the_scheduler_does(toleration: dict[str, str], holds: bool) -> None:
    assert tolerates(toleration, "gpu", "yes") is holds
