"""`bireme tensorboard` shows what a job reported."""

from __future__ import annotations

import signal
import socket
import urllib.request
from pathlib import Path

import pytest

from bireme.runs.directory import RunDirectory
from bireme.runs.run_files import RunId
from bireme.runtime.records.recorder import Recorder
from tests.cli.commands import Cli, until


def _reported(cli: Cli) -> tuple[str, Recorder]:
    """A job that has ended, and somebody who goes on reporting as its rank 0."""
    name = cli.detached(cli.write("train.py", "print(1)"), "--cold")
    assert cli("wait", name).status == 0
    recorder = Recorder(str(_run(cli, name).path / "metrics"), 0, 0, print)
    recorder.scalars(1, {"loss": 0.5})
    return name, recorder


def _run(cli: Cli, name: str) -> RunDirectory:
    return RunDirectory(cli.home, RunId(name, 1))


def test_the_event_files_alone_are_written_and_named(cli: Cli) -> None:
    name, _ = _reported(cli)

    done = cli("tensorboard", name, "--logdir-only")

    assert done.status == 0
    folder = Path(done.out.strip())
    assert [one.parent.name for one in folder.glob("*/*tfevents*")] == ["rank-0"]


def test_what_a_job_reports_is_served_while_it_goes_on(cli: Cli) -> None:
    pytest.importorskip("tensorboard")
    name, recorder = _reported(cli)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/data/plugin/scalars/scalars?tag=loss&run=rank-0"

    def shown() -> bytes:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return bytes(answer.read())
        except OSError:
            return b""

    options = ("--port", str(port), "--host", "127.0.0.1", "--reload_interval", "1")
    process = cli.start("tensorboard", name, "--", *options)
    try:
        until("the first value is shown", lambda: b"0.5" in shown())
        recorder.scalars(2, {"loss": 0.25})
        until("the second value is shown", lambda: b"0.25" in shown())
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 0


def test_a_job_that_is_not_there_is_refused(cli: Cli) -> None:
    done = cli("tensorboard", "absent")

    assert done.status == 2
    assert "absent" in done.err


def test_numbers_that_a_script_only_prints_are_shown_too(cli: Cli) -> None:
    cli.write("train.py", "for step in range(3): print(f'Accuracy at step {step}: {step / 4}')")
    cli.write("job.yaml", "script: train.py\nname: printing\nmetrics: [accuracy]\n")
    assert cli("run", "-f", "job.yaml").status == 0

    done = cli("tensorboard", "printing", "--logdir-only")

    (file,) = Path(done.out.strip()).glob("*/*tfevents*")
    assert file.parent.name == "master-0"
    assert file.read_bytes().count(b"accuracy") == 3
