"""The way of a job to its runner, or through the operator, is straight, and loads no more than it needs."""

from __future__ import annotations

import pytest
from tools import path


@pytest.fixture(scope="module")
def reports() -> dict[str, path.Report]:
    return path.walked("run")


def test_no_file_is_returned_to_before_the_runner_starts(reports: dict[str, path.Report]) -> None:
    command = reports["command"]

    assert command["hops"][0] == "cli.main"
    assert command["hops"][-1] == "runner.standby"
    assert command["returns"] == []


def test_no_file_is_returned_to_before_the_operator_has_made_the_pods() -> None:
    operator = path.walked("operator")["operator"]

    assert operator["hops"][:2] == ["operator.controller", "engine.step"]
    assert operator["hops"][-2:] == [
        "backends.kubernetes.pod_backend",
        "backends.kubernetes.objects.pod_builder",
    ]
    assert operator["returns"] == []


def test_a_launch_loads_nothing_of_checkpoints_and_clusters(reports: dict[str, path.Report]) -> None:
    loaded = {name for report in reports.values() for name in report["loaded"]}

    assert not [name for name in loaded if name.startswith("bireme.runtime.checkpoints.")]
    assert not [name for name in loaded if name.startswith("bireme.backends.kubernetes.")]


def test_the_command_and_its_runner_each_load_their_own_half(reports: dict[str, path.Report]) -> None:
    command, runner = (set(reports[name]["loaded"]) for name in ("command", "runner"))

    assert not [name for name in runner if name.startswith(("bireme.sdk.", "bireme.manifest."))]
    assert "bireme.runner.loop" not in command
