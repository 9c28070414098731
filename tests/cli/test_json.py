"""What `--json` prints is of the declared type, with its version, and nothing else is on standard output."""

from __future__ import annotations

import json

import msgspec
import pytest

from bireme.sdk import views
from bireme.sdk.checkpoint_names import CheckpointList
from bireme.sdk.local.machine_checks import MachineView
from tests.cli import scripts
from tests.cli.commands import Cli


@pytest.mark.parametrize(
    ("words", "type"),
    [
        (["run", "train.py", "--json"], views.JobViews),
        (["run", "train.py", "--json", "--detach"], views.JobViews),
        (["ps", "--all", "--json"], views.JobList),
        (["show", "mnist", "--json"], views.JobView),
        (["checkpoints", "mnist", "--json"], CheckpointList),
        (["wait", "mnist", "--json"], views.JobViews),
        (["stop", "mnist", "--json"], views.JobViews),
        (["check", "job.yaml", "--json"], views.CheckView),
        (["render", "job.yaml", "--json"], views.ManifestList),
        (["explain", "--json"], views.ErrorList),
        (["doctor", "--json"], MachineView),
    ],
)
def test_json_is_of_its_type(cli: Cli, words: list[str], type: type[msgspec.Struct]) -> None:
    cli.write("train.py", scripts.ALONE)
    cli.write("job.yaml", "script: train.py\nname: mnist\n")
    cli("run", "-f", "job.yaml")

    done = cli(*words)

    assert done.status == 0, done.err
    msgspec.json.decode(done.out, type=type, strict=True)
    assert json.loads(done.out)["version"] == 1


def test_json_of_a_failed_job_has_its_diagnosis_and_its_status(cli: Cli) -> None:
    cli.write("train.py", scripts.FAILS_ON_RANK_1)

    done = cli("run", "train.py", "--workers", "2", "--retries", "0", "--json")

    assert done.status == 1
    (job,) = msgspec.json.decode(done.out, type=views.JobViews).jobs
    assert job.exit_status == 1
    assert job.diagnosis is not None
    assert job.diagnosis.error is not None
    assert (job.diagnosis.error.rank, job.diagnosis.error.what) == (1, "ValueError: rank 1 does not want to")
