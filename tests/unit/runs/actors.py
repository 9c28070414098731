"""The other processes of these tests: one verb each, named by the first argument."""

from __future__ import annotations

import os
import resource
import sys
import time
from functools import partial
from pathlib import Path

import msgspec

from bireme import errors
from bireme.core.machine.admission import Capacity
from bireme.model.replicas import Waiting
from bireme.model.status import Status
from bireme.runs.directory import RunDirectory
from bireme.runs.ledger import Grant, Ledger
from bireme.runs.logs.log_entries import (
    Stream,
)
from bireme.runs.logs.log_writer import (
    LogSettings,
    LogWriter,
)
from bireme.runs.run_files import Desired, RunId, parse_run
from tests.unit.runs.run_fixtures import gang, make_run


def hold(home: str, name: str) -> None:
    """Holds a run until it is told to end."""
    lock = _run(home, name).hold()
    _say("held" if lock else "refused")
    sys.stdin.readline()


def hold_and_fork(home: str, name: str) -> None:
    """Holds a run, hands it to a forked child, and ends; the child ends when it is told to."""
    lock = _run(home, name).hold()
    assert lock is not None
    if os.fork():
        os._exit(0)
    _say(f"child {os.getpid()}")
    sys.stdin.readline()


def hold_and_exec(home: str, name: str) -> None:
    """Holds a run and becomes another program, which does not hold it."""
    assert _run(home, name).hold()
    os.execv("/bin/sh", ["sh", "-c", "echo replaced; read line"])


def claim(home: str, name: str, count: str) -> None:
    """Claims a gang of a machine of four cpus, again and again until it has it, and holds it until told."""
    run, _lock = make_run(Path(home), name)
    ledger = Ledger(Path(home), lambda: Capacity(cpu=4000, memory=0))
    _say("ready")
    sys.stdin.readline()
    while True:
        match ledger.admit(run.id, 0, gang(int(count), ports=("rendezvous",)), time.time()):
            case Grant() as grant:
                _say("granted " + msgspec.json.encode(grant).decode())
                break
            case Waiting():
                time.sleep(0.002)
    sys.stdin.readline()
    ledger.release(run.id)


def edit(home: str, name: str, label: str, times: str) -> None:
    """Adds labels to a job, one edit each."""
    run = _run(home, name)
    for number in range(int(times)):
        run.edit(partial(_labelled, f"{label}-{number}"))


def create(home: str, name: str) -> None:
    """Creates a run, if the name is free, and holds it until told."""
    _say("ready")
    sys.stdin.readline()
    try:
        run, _lock = make_run(Path(home), name)
        _say(f"created {run.id}")
    except errors.BadInput as error:
        _say(f"refused {error.what}")
    sys.stdin.readline()


def write_log(logs: str, replica: str, lines: str, rotate_at: str) -> None:
    """Prints numbered lines into a log that is rotated often."""
    writer = LogWriter(Path(logs), replica, "main", LogSettings(rotate_at=int(rotate_at), keep=1000))
    for number in range(int(lines)):
        writer.feed(Stream.STDOUT, f"line {number}\n".encode(), time.time())
    writer.close(time.time())


def fill_disk(home: str, name: str) -> None:
    """Writes a status where files may not grow, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
    run = _run(home, name)
    try:
        run.write_status(Status(waiting="x" * 5000))
    except errors.NoRoom as error:
        _say(str(error).replace("\n", " | "))


def _labelled(label: str, wanted: Desired) -> Desired:
    job = msgspec.structs.replace(wanted.job, labels={**wanted.job.labels, label: ""})
    return msgspec.structs.replace(wanted, job=job)


def _run(home: str, name: str) -> RunDirectory:
    base, number = parse_run(name)
    return RunDirectory(Path(home), RunId(base, number or 1))


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
