"""The verbs on jobs whose pods really run: lines as they come, first errors, restarts, broken connections."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from bireme.sdk.client import Client
from tests.cli.commands import WORDS, Cli
from tests.cli.conftest import cli as cli
from tests.cluster import operator_fixtures
from tests.cluster.client_fixtures import Line, line
from tests.cluster.harness import PYTHON, Cluster
from tests.cluster.operator_fixtures import CRDS, until
from tests.cluster.verbs import Verbs, verbs

ON = ("--on", "kubernetes", "--image", PYTHON)
SLEEP = """
    import signal, sys, time
    signal.signal(signal.SIGTERM, lambda *_: (print("bye", flush=True), sys.exit(0)))
    number = 0
    while True:
        print("tick", number, flush=True)
        number += 1
        time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def served(cluster: Cluster) -> Cluster:
    for file in CRDS:
        cluster.kubectl("apply", "-f", str(file))
    return cluster


@pytest.fixture
def bireme(served: Cluster, cli: Cli, tmp_path: Path) -> Iterator[Verbs]:
    with verbs(served, cli, tmp_path) as one:
        options = ("--no-leader-elect", "--namespace", one.namespace)
        with operator_fixtures.operator(served.kubeconfig, tmp_path / "operator.log", *options):
            yield one


def test_a_plain_script_runs_in_a_stock_image(bireme: Verbs) -> None:
    bireme.cli.write("helper.py", "NAME = 'helper'")
    bireme.cli.write("requirements.txt", "--no-index\n./tiny-1-py3-none-any.whl\n")
    _write_wheel(bireme.cli.folder / "tiny-1-py3-none-any.whl")
    bireme.cli.write(
        "train.py",
        """
        import os, sys
        import bireme, helper, tiny
        rank, size = os.environ["RANK"], os.environ["WORLD_SIZE"]
        print(helper.NAME, tiny.ANSWER, "rank", rank, "of", size, sys.argv[1:])
        """,
    )

    done = bireme("run", "train.py", "--workers", "2", *ON, "--name", "plain", "--", "--lr", "1")

    assert done.status == 0, done.err
    lines = done.out.splitlines()
    assert "[rank 0] helper 42 rank 0 of 2 ['--lr', '1']" in lines
    assert "[rank 1] helper 42 rank 1 of 2 ['--lr', '1']" in lines
    assert "[rank 1] bireme: installing requirements.txt" in lines
    assert "Succeeded in" in done.err
    assert bireme.done("logs", "plain", "--rank", "1", "--tail", "1").out.startswith("helper 42 rank 1")


def test_the_first_error_ends_the_story(bireme: Verbs) -> None:
    bireme.cli.write(
        "train.py",
        """
        import os, time
        if os.environ["RANK"] == "1":
            raise ValueError("no such thing")
        time.sleep(600)
        """,
    )

    done = bireme("run", "train.py", "--workers", "2", "--retries", "1", *ON, "--name", "crash")

    assert done.status == 1
    assert "crash was restarted: rank 1 on " in done.err
    assert "attempt 2 begins" in done.err
    assert "crash failed: rank 1 on " in done.err
    assert done.err.endswith('    raise ValueError("no such thing")\nValueError: no such thing\n')
    error = bireme.json("show", "crash")["diagnosis"]["error"]
    assert (error["what"], error["attempt"], error["exit_code"]) == ("ValueError: no such thing", 1, 1)


def test_a_manifest_of_others_shows_the_last_lines_of_the_rank_that_failed(bireme: Verbs) -> None:
    program = "import sys; print('about to fail'); sys.exit(7)"
    container = {"name": "tensorflow", "image": PYTHON, "command": ["python3", "-c", program]}
    worker = {"replicas": 2, "restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
    tfjob = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "mnist"},
        "spec": {"tfReplicaSpecs": {"Worker": worker}},
    }

    done = bireme("run", "-f", bireme.manifest(tfjob), "--on", "kubernetes")

    assert done.status == 1
    assert "ended with exit code 7" in done.err
    assert done.err.endswith("Its last lines:\n    about to fail\n")


def test_a_job_is_left_followed_again_stopped_and_removed(bireme: Verbs) -> None:
    bireme.cli.write("sleep.py", SLEEP)
    bireme.done("run", "sleep.py", *ON, "--name", "sleeper", "--detach")
    until(lambda: "tick" in bireme("logs", "sleeper").out, "the first line")

    follower = subprocess.Popen(
        [*WORDS, "logs", "-f", "sleeper"],
        cwd=bireme.cli.folder,
        env={**bireme.cli.environ, "KUBECONFIG": str(bireme.kubeconfig)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout is not None
    assert follower.stdout.readline().startswith("tick")
    assert "stopped sleeper" in bireme.done("stop", "sleeper").err
    rest = follower.stdout.read()
    assert follower.wait(30) == 0
    assert rest.endswith("bye\n")
    bireme.done("rm", "--yes", "sleeper")
    until(lambda: bireme.kubectl.object("pods")["items"] == [])


def test_a_list_says_how_far_a_job_is_and_a_follower_that_it_was_removed(bireme: Verbs) -> None:
    bireme.cli.write(
        "train.py",
        """
        import signal, sys, time
        import bireme
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        with bireme.init() as run:
            for step, _ in run.steps(range(20), start=run.restore()):
                print("step", step, flush=True)
                run.report(step, loss=0.25)
                if step == 9:
                    time.sleep(600)
        """,
    )
    bireme.done("run", "train.py", *ON, "--name", "reporting", "--detach")
    until(lambda: "10/20" in bireme("ps").out, "ps says how far it is")
    follower = subprocess.Popen(
        [*WORDS, "logs", "-f", "report"],
        cwd=bireme.cli.folder,
        env={**bireme.cli.environ, "KUBECONFIG": str(bireme.kubeconfig)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout is not None
    assert follower.stdout.readline() == "step 0\n"

    assert "loss 0.25" in bireme("ps").out
    bireme.done("rm", "--yes", "reporting")
    _, err = follower.communicate(timeout=60)

    assert (follower.returncode, err) == (0, "reporting was removed\n")


def test_an_interrupt_without_a_terminal_stops_the_job(bireme: Verbs) -> None:
    bireme.cli.write("sleep.py", SLEEP)
    running = subprocess.Popen(
        [*WORDS, "run", "sleep.py", *ON, "--name", "sleeper"],
        cwd=bireme.cli.folder,
        env={**bireme.cli.environ, "KUBECONFIG": str(bireme.kubeconfig)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "tick 0\n"

    running.send_signal(signal.SIGTERM)
    _, said = running.communicate(timeout=60)

    assert running.returncode == 130
    assert "stopped sleeper; `bireme resume sleeper` resumes it" in said
    assert bireme.json("show", "sleeper")["phase"] == "Suspended"


def test_lines_come_once_each_through_broken_connections(bireme: Verbs, tmp_path: Path) -> None:
    bireme.cli.write("sleep.py", SLEEP)
    bireme.done("run", "sleep.py", *ON, "--name", "sleeper", "--detach")
    until(lambda: "tick" in bireme("logs", "sleeper").out, "the first line")
    with _line(bireme.kubeconfig) as wire:
        far = bireme.changed(server=f"https://127.0.0.1:{wire.port}")
        client = Client(tmp_path / "far", bireme.cli.environ, on="kubernetes", kubeconfig=str(far.kubeconfig))
        numbers = []
        for line in client.logs("sleeper", follow=True):
            numbers.append(int(line.text.split()[1]))
            if numbers[-1] % 30 == 10:
                wire.shake()
            if numbers[-1] >= 130:
                break

    assert numbers == list(range(numbers[-1] + 1))


def test_an_image_that_is_not_there_is_said_within_seconds(bireme: Verbs) -> None:
    bireme.cli.write("train.py", "print('hello')")
    bireme.done(
        "run", "train.py", "--on", "kubernetes", "--image", "absent.test/x:1", "--name", "one", "--detach"
    )

    until(lambda: "absent.test/x:1" in bireme.json("show", "one")["why"], "the reason")

    assert "absent.test/x:1" in bireme("ps").out


def test_a_batch_job_is_left_to_its_controller_and_followed(bireme: Verbs) -> None:
    container = {"name": "main", "image": PYTHON, "command": ["python3", "-c", "print('from a Job')"]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "once"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }

    done = bireme("run", "-f", bireme.manifest(job), "--on", "kubernetes")

    assert (done.status, done.out) == (0, "from a Job\n"), done.err
    (row,) = bireme.json("ps", "--all")["jobs"]
    assert (row["kind"], row["phase"], row["total"]) == ("Job", "Succeeded", 1)
    bireme.done("rm", "once")


class Cuttable:
    """A line to the API server, in a thread of its own, that breaks every connection when told."""

    def __init__(self, loop: asyncio.AbstractEventLoop, line: Line) -> None:
        self._loop, self._line = loop, line
        self.port = line.port

    def shake(self) -> None:
        """Cuts the line and mends it at once."""
        asyncio.run_coroutine_threadsafe(self._shake(), self._loop).result(10)

    async def _shake(self) -> None:
        self._line.cut()
        self._line.mend()


@contextmanager
def _line(kubeconfig: Path) -> Iterator[Cuttable]:
    server = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    loop = asyncio.new_event_loop()
    laid = line(server)
    made = loop.run_until_complete(laid.__aenter__())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield Cuttable(loop, made)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


def _write_wheel(path: Path) -> None:
    info = "tiny-1.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tiny.py", "ANSWER = 42")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
