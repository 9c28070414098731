"""What is said of jobs that crash in place, that are stopped and resumed at once, or that nobody reads."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from tests.cli.commands import PATIENCE, WORDS, Cli, until
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


STUBBORN = """
import pathlib, signal, time
signal.signal(signal.SIGTERM, lambda *told: print("not yet", flush=True))
print("deaf", flush=True)
while not pathlib.Path("end").exists():
    time.sleep(0.05)
"""


def test_a_stop_that_a_resume_takes_back_says_so_at_once(cli: Cli) -> None:
    cli.write("stubborn.py", STUBBORN)
    cli.detached("stubborn.py", "--name", "stubborn")
    until("it listens", lambda: "deaf" in cli("logs", "stubborn").out)

    stop = cli.start("stop", "stubborn")
    until("it was told to end", lambda: "not yet" in cli("logs", "stubborn").out)
    resumed = cli("resume", "stubborn")
    _, said = stop.communicate(timeout=20)  # well within the grace of its rank
    cli.write("end", "")

    assert "stubborn was being stopped; it continues instead" in resumed.err
    assert stop.returncode == 1
    assert said == "stubborn is not stopped: it was resumed meanwhile\n"


def test_a_stop_that_is_interrupted_says_that_it_holds_and_the_list_shows_it(cli: Cli) -> None:
    cli.write("stubborn.py", STUBBORN)
    cli.detached("stubborn.py", "--name", "stubborn")
    until("it listens", lambda: "deaf" in cli("logs", "stubborn").out)

    with Terminal(cli, "stop", "stubborn") as terminal:
        until("it was told to end", lambda: "not yet" in cli("logs", "stubborn").out)
        terminal.press(CTRL_C)
        terminal.expect("stubborn is stopping, and will")
        assert terminal.ended() == 130
    listed = _listed(cli, "stubborn")
    cli.write("end", "")

    assert "stopping" in listed["why"]


def test_a_reader_that_has_read_enough_does_not_stop_the_job(cli: Cli) -> None:
    cli.write(
        "talks.py", "import time\nfor n in range(4000):\n    print(n, flush=True)\n    time.sleep(0.05)\n"
    )

    shell = ("sh", "-c", f"{shlex.join(WORDS)} run talks.py --name talks | head -1; echo done")
    with Terminal(cli, program=shell) as terminal:
        terminal.expect("talks continues in the background. Follow it with `bireme logs -f talks`.")
        terminal.ended()

    assert _listed(cli, "talks")["phase"] == "Running"


def _holds_a_terminal(cli: Cli, name: str) -> bool:
    pid = json.loads(cli("show", name, "--json").out)["replicas"][0]["pid"]
    return any(str(one.readlink()).startswith("/dev/pts/") for one in Path(f"/proc/{pid}/fd").iterdir())


def test_a_rank_that_reads_nothing_does_not_keep_the_terminal_of_who_left(cli: Cli) -> None:
    cli.write("deaf.py", "import time\nprint('begins', flush=True)\ntime.sleep(600)\n")

    with Terminal(cli, "run", "deaf.py", "--name", "deaf") as terminal:
        terminal.expect("begins")
        terminal.press(CTRL_C)
        assert terminal.ended() == 130
        assert not _holds_a_terminal(cli, "deaf")
