"""A program does what the command line does, with the same values and errors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import bireme
from bireme import errors
from bireme.model.status import Phase
from bireme.sdk.client import Client
from bireme.sdk.submissions import RunOptions

HELLO = "import os\nprint('hello from', os.environ['RANK'])\n"
SLEEP = "import time\nprint('asleep', flush=True)\ntime.sleep(600)\n"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    environ = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    client = Client(tmp_path / "home", {**environ, "VIRTUAL_ENV": sys.prefix})
    yield client
    for job in client.jobs(all=True):
        client.remove(job.key)


def _script(folder: Path, text: str) -> Path:
    (folder / "train.py").write_text(text)
    return folder / "train.py"


def test_the_client_is_found_in_the_package() -> None:
    assert bireme.Client is Client


def test_a_script_is_run_waited_for_and_read(client: Client, tmp_path: Path) -> None:
    job = client.run(_script(tmp_path, HELLO), workers=2, name="hello")

    view = job.wait(60)

    assert (view.phase, view.exit_status, view.workers) == (Phase.SUCCEEDED, 0, "0/2")
    assert sorted(line.text for line in job.logs()) == ["hello from 0", "hello from 1"]
    assert [line.text for line in job.logs("worker-0")] == ["hello from 1"]
    assert [replica.rank for replica in view.replicas] == [0, 1]


def test_lines_come_while_the_job_runs_and_end_with_it(client: Client, tmp_path: Path) -> None:
    job = client.run(_script(tmp_path, SLEEP), name="sleeper")
    lines = job.logs(follow=True)

    assert next(lines).text == "asleep"
    stopped = job.stop()
    assert list(lines) == []
    assert stopped.phase is Phase.SUSPENDED
    assert [one.id for one in client.jobs()] == ["sleeper"]


def test_a_manifest_is_a_path_a_text_or_data(client: Client, tmp_path: Path) -> None:
    script = _script(tmp_path, HELLO)
    (tmp_path / "job.yaml").write_text("script: train.py\nname: by-path\n")
    text = f"script: {script}\nname: by-text\n"

    handles = [
        *client.submit(tmp_path / "job.yaml"),
        *client.submit(text),
        *client.submit({"script": str(script), "name": "by-data"}, RunOptions()),
    ]

    assert [one.wait(60).phase for one in handles] == [Phase.SUCCEEDED] * 3
    assert {one.id for one in client.jobs(all=True)} == {"by-path", "by-text", "by-data"}


def test_errors_are_those_of_the_command_line(client: Client, tmp_path: Path) -> None:
    with pytest.raises(errors.BadInput, match="there is no run absent"):
        client.job("absent")
    with pytest.raises(errors.BadManifest):
        client.submit("kind: Nothing\nspec: {}\n")
    with pytest.raises(errors.NoRoom):
        client.run(_script(tmp_path, HELLO), gpu=1000)
    assert client.jobs(all=True) == ()


def test_a_wait_that_is_too_short_says_so(client: Client, tmp_path: Path) -> None:
    job = client.run(_script(tmp_path, SLEEP), name="sleeper")

    with pytest.raises(errors.Unreachable, match=r"sleeper has not ended within 0\.1 s"):
        job.wait(0.1)


def test_a_handle_means_its_own_run_even_when_the_job_is_run_again(client: Client, tmp_path: Path) -> None:
    script = _script(tmp_path, HELLO)
    first = client.run(script, name="again")
    first.wait(60)

    second = client.run(script, name="again")
    second.wait(60)

    assert (first.view().id, second.view().id) == ("again#1", "again#2")
    assert client.job("again").number == 2


def test_check_and_render_start_nothing(client: Client, tmp_path: Path) -> None:
    text = "script: absent.py\nname: mnist\nworkers: 2\n"

    checked, rendered = client.check(text), client.render(text)

    assert checked.jobs[0].replicas == {"master": 1, "worker": 1}
    assert "absent.py" in checked.jobs[0].here
    assert "kind: PyTorchJob" in rendered
    assert client.jobs(all=True) == ()


def test_a_client_needs_no_cleaning_up_in_a_program_of_its_own(tmp_path: Path) -> None:
    script = _script(tmp_path, HELLO)
    program = f"""
from bireme import Client
client = Client({str(tmp_path / "home")!r})
job = client.run({str(script)!r})
print(job.wait(60).phase)
job.remove()
"""

    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "VIRTUAL_ENV": sys.prefix},
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "Succeeded\n", "")
