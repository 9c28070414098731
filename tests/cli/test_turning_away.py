"""What is said of jobs that crash in place, that are stopped and resumed at once, or that nobody reads."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

from tests.cli import scripts
from tests.cli.commands import PATIENCE, Cli, until
from tests.cli.terminals import CTRL_C, Terminal

LOOPY = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: loopy}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          containers:
          - {name: pytorch, image: x, command: [sh, -c, "echo hello; exit 3"]}
"""


def _listed(cli: Cli, name: str) -> dict[str, Any]:
    jobs = json.loads(cli("ps", "--json", "--all").out)["jobs"]
    return next(one for one in jobs if one["name"] == name)


def test_a_program_that_crashes_in_place_again_and_again_is_told_of_and_counted(cli: Cli) -> None:
    cli.write("loopy.yaml", LOOPY)

    follower = cli.start("run", "-f", "loopy.yaml")
    until("it was restarted twice", lambda: bool(cli.runs()) and _listed(cli, "loopy")["restarts"] >= 2)
    resting = _listed(cli, "loopy")
    cli("stop", "loopy")
    stopped = _listed(cli, "loopy")
    _, said = follower.communicate(timeout=PATIENCE)

    assert "exit code 3" in resting["why"]
    assert "master-0 is restarted: exit code 3 (2nd time)" in said
    assert stopped["restarts"] >= 1
