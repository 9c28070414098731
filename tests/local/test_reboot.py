"""After a reboot of the machine a job goes on: nothing of it lives, and its pids belong to others."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from bireme.backends.local.processes import start_time
from bireme.runs.journal import Journal
from bireme.runs.replica_journal import Entry, Ran
from tests.local.harness import Bireme, bireme_in, kill, until

SCRIPT = """
import os, time
print("attempt", os.environ["BIREME_ATTEMPT"], flush=True)
if os.environ["BIREME_ATTEMPT"] == "0":
    time.sleep(600)
"""


@pytest.fixture
def bireme(tmp_path: Path) -> Iterator[Bireme]:
    with bireme_in(tmp_path) as one:
        yield one


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with any job."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def reboot(bireme: Bireme, name: str, stranger: int) -> None:
    """Leaves what a power cut and the next start leave: files of another boot, and other processes' pids."""
    kill(*bireme.keepers(name), *bireme.leftovers(), *bireme.zygotes_in_the_making())
    until(lambda: not bireme.leftovers() and not bireme.keepers(name), "everything is dead")
    run = bireme.run(name)
    context = run.path / "context.json"
    tree = msgspec.json.decode(context.read_bytes())
    context.write_bytes(msgspec.json.encode({**tree, "machine": {**tree["machine"], "boot": "before"}}))
    with closing(sqlite3.connect(bireme.home / "bireme.db")) as connection, connection:
        connection.execute("UPDATE machine SET boot = 'before'")
    journal: Journal[Entry] = Journal(run.journal_path, Entry)
    entries = [
        msgspec.structs.replace(one, pid=stranger, start_time=start_time(stranger))
        if isinstance(one, Ran)
        else one
        for one in journal.read()
    ]
    run.journal_path.unlink()
    journal.append(*entries)
    journal.close()


def test_a_job_is_resumed_after_a_reboot_and_strangers_are_left_alone(
    bireme: Bireme, stranger: subprocess.Popen[bytes]
) -> None:
    bireme.write("train.py", SCRIPT)
    bireme("run", "train.py", "--detach", "--name", "kept", "--workers", "2")
    until(lambda: len(bireme.ranks("kept")) == 2, "both ranks run")
    reboot(bireme, "kept", stranger.pid)

    done = bireme("doctor", "--resume-only")

    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == ("", "resumed kept: its runner had died\n")
    assert bireme("wait", "kept").returncode == 0
    status = bireme.status("kept")
    assert (status.attempt, status.phase) == (1, "Succeeded")
    assert stranger.poll() is None
