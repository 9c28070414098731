"""Makes runs and other processes for the tests of runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from bireme.model.decisions import Demand
from bireme.model.job import Job, Restart, Role
from bireme.model.pods import Container, PodSpec, Resources
from bireme.model.status import Condition, ConditionType, Status
from bireme.runs import directory
from bireme.runs.directory import RunDirectory
from bireme.runs.machine import this_machine
from bireme.runs.run_files import Desired, RunContext
from bireme.runs.storage.locks import FileLock

REPOSITORY = Path(__file__).parents[3]
LIMIT = 60.0

_started: list[Callable[[], None]] = []


def desired(name: str = "mnist", replicas: int = 1) -> Desired:
    pod = PodSpec(containers=(Container("main", command=("train",), ports={"rendezvous": 29500}),))
    role = Role("worker", "Worker", replicas, Restart.NEVER, pod, "main")
    job = Job("PyTorchJob", "kubeflow.org/v1", name, (role,), options={"elastic": {"min": 1}})
    return Desired(job, {"kind": "PyTorchJob", "metadata": {"name": name}})


def context(created: float = 100.0) -> RunContext:
    return RunContext(
        cwd="/", python=sys.executable, machine=this_machine(), created=created, environment={"TOKEN": "hush"}
    )


def make_run(home: Path, name: str = "mnist", created: float = 100.0) -> tuple[RunDirectory, FileLock]:
    return directory.create(home, desired(name), context(created))


def ended(type: ConditionType = ConditionType.SUCCEEDED) -> Status:
    return Status(conditions=(Condition(type, True, "", "", 5.0, 5.0),), completed=5.0)


def gang(
    count: int, cpu: int = 1000, ports: tuple[str, ...] = (), devices: dict[str, int] | None = None
) -> tuple[Demand, ...]:
    resources = Resources(cpu=cpu, devices=devices or {})
    return tuple(Demand(f"worker-{index}", resources, ports) for index in range(count))


def actor(*arguments: object) -> subprocess.Popen[str]:
    """Starts another process that does what `actors` describes."""
    command = [sys.executable, "-m", "tests.unit.runs.actors", *map(str, arguments)]
    process = subprocess.Popen(
        command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    _started.append(lambda: kill(process))
    return process


def said(process: subprocess.Popen[str]) -> str:
    """Returns the next line of another process."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"it ended with {process.wait()}"
    return line.strip()


def tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def finish(process: subprocess.Popen[str]) -> int:
    """Waits for the end and closes its pipes."""
    process.communicate(timeout=LIMIT)
    return process.returncode


def kill(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.kill()
        finish(process)


def kill_all() -> None:
    """Ends what a test left behind, however it ended."""
    while _started:
        _started.pop()()


class Forked:
    """A child of this process, for what has to be killed often."""

    def __init__(self, pid: int, pipe: TextIO) -> None:
        self._pid = pid
        self._pipe = pipe

    def heard(self) -> str:
        return self._pipe.readline().strip()

    def kill(self) -> None:
        if not self._pipe.closed:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pipe.close()


def forked(work: Callable[[Callable[[str], None]], None]) -> Forked:
    """Does some work in a child, which can say lines."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            work(lambda line: void(os.write(writing, f"{line}\n".encode())))
        finally:
            os._exit(1)
    os.close(writing)
    child = Forked(pid, os.fdopen(reading))
    _started.append(child.kill)
    return child


def void(result: object) -> None:
    """Forgets a result."""


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.002)
