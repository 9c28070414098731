"""What is shown is a function of values: jobs, lines, diagnoses, machines."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bireme.cli.render import render_diagnosis, render_jobs, render_machine, render_progress
from bireme.cli.render.render_lines import Prefixes, status_line
from bireme.model.decisions import EventType
from bireme.model.job import RestartScope
from bireme.model.pods import Resources
from bireme.model.replicas import ReplicaPhase
from bireme.model.status import Condition, ConditionType, Phase
from bireme.runs.run_files import RecordedEvent
from bireme.sdk.frameworks import Interpreter
from bireme.sdk.local import machine_checks
from bireme.sdk.local.machine_checks import MachineView
from bireme.sdk.views import (
    Diagnosis,
    Finding,
    FirstError,
    Glance,
    JobList,
    JobView,
    LogLine,
    Progress,
    ReplicaView,
    RoleView,
    WarmState,
    WarmView,
)
from tests.unit import build

ERROR = FirstError(
    replica="mnist-worker-0",
    short="worker-0",
    rank=1,
    host="box",
    attempt=0,
    exit_code=1,
    time=12.0,
    how="ended with exit code 1",
    what="ValueError: no",
    traceback='Traceback (most recent call last):\n  File "train.py", line 1, in <module>\nValueError: no\n',
)
FAILED = Diagnosis(
    finding=Finding.FAILED,
    summary="mnist failed: rank 1 (worker-0 on box) ended with exit code 1",
    error=ERROR,
    more="bireme logs mnist worker-0",
)
VIEW = JobView(
    id="mnist",
    name="mnist",
    number=1,
    kind="PyTorchJob",
    phase=Phase.FAILED,
    ready=0,
    total=2,
    attempt=0,
    restarts=0,
    created=0.0,
    started=1.0,
    completed=13.0,
    exit_status=1,
    host="box",
    is_here=True,
    has_runner=False,
    expired=False,
    why="rank 1 (worker-0 on box) ended with exit code 1",
    api_version="kubeflow.org/v1",
    crashes=1,
    crash_limit=0,
    evictions=0,
    eviction_limit=20,
    roles=(
        RoleView(name="worker", type="Worker", replicas=2, restart="Never", resources=Resources(cpu=500)),
    ),
    resources=Resources(cpu=1000, memory=2**30),
    conditions=(Condition(ConditionType.FAILED, True, "PyTorchJobFailed", "it failed", 13.0, 13.0),),
    replicas=(
        ReplicaView(
            name="mnist-worker-0",
            short="worker-0",
            role="worker",
            index=0,
            rank=1,
            phase=ReplicaPhase.FAILED,
            exit_code=1,
            started=1.0,
            ended=12.0,
        ),
    ),
    events=(RecordedEvent(13.0, EventType.WARNING, "PyTorchJobFailed", "it failed", 2),),
    diagnosis=FAILED,
    command=("python", "train.py"),
    folder="/home/runs/mnist/1",
    cwd="/work",
    python="/usr/bin/python3",
)
MACHINE = MachineView(
    bireme="1.0",
    host="box",
    home="/home",
    home_free=2**40,
    cpu=2000,
    memory=2**34,
    gpus=0,
    gpus_busy=0,
    cgroups="v2",
    mounts=True,
    mpi="mpirun (Open MPI) 4.1.4",
    interpreter=Interpreter(path="/usr/bin/python3", version="3.11.7", frameworks={"torch": "2.13"}),
    warm=(),
)

WARM = tuple(
    WarmView(pid=pid, memory=2**28, modules=packages, packages=packages, state=state, used=used)
    for pid, packages, state, used in (
        (7, ("torch",), WarmState.READY, 60.0),
        (8, ("torch",), WarmState.READY, 120.0),
        (9, ("torch", "lightning"), WarmState.STOPPED, 180.0),
        (10, ("tensorflow",), WarmState.STARTING, 600.0),
    )
)


def test_a_diagnosis_ends_with_the_error_itself() -> None:
    assert render_diagnosis.lines(FAILED) == [
        "mnist failed: rank 1 (worker-0 on box) ended with exit code 1",
        "Everything it printed: bireme logs mnist worker-0",
        "",
        "Traceback (most recent call last):",
        '  File "train.py", line 1, in <module>',
        "ValueError: no",
    ]


def test_a_rank_without_a_traceback_shows_its_last_lines() -> None:
    killed = replace(ERROR, traceback="", what="", tail=("step 1", "step 2"))

    lines = render_diagnosis.lines(replace(FAILED, error=killed))

    assert lines[2:] == ["", "Its last lines:", "    step 1", "    step 2"]


def test_a_long_traceback_keeps_both_ends() -> None:
    long = "\n".join(
        ["Traceback (most recent call last):", *(f"  {n}" for n in range(500)), "ValueError: no"]
    )

    lines = render_diagnosis.lines(replace(FAILED, error=replace(ERROR, traceback=long)))

    assert len(lines) == 3 + render_diagnosis.MOST_LINES
    assert lines[3] == "Traceback (most recent call last):"
    assert lines[-1] == "ValueError: no"
    assert any("lines left out" in line for line in lines)


def test_independent_copies_are_told_with_the_lines_to_add() -> None:
    found = Diagnosis(
        finding=Finding.INDEPENDENT, summary="train.py ran 2 independent copies", advice=("add()",)
    )

    assert render_diagnosis.lines(found) == ["train.py ran 2 independent copies", "    add()"]


def test_a_job_is_shown_with_the_reason_last() -> None:
    lines = render_jobs.shown(VIEW, now=20.0)

    assert lines[0] == "mnist  PyTorchJob  Failed"
    assert "  resources  2 Worker: 1 cpu, 1 GiB" in lines
    assert "  crashes    1 of 0 tolerated" in lines
    assert "REPLICA   RANK  PHASE   READY  RESTARTS  EXIT  PID  RAN  MESSAGE" in lines
    assert any(line.endswith("it failed (x2)") for line in lines)
    assert lines[-1] == "ValueError: no"


def test_old_events_are_counted() -> None:
    many = tuple(replace(VIEW.events[0], message=f"event {number}") for number in range(25))

    assert "5 older ones: bireme show mnist --json" in render_jobs.shown(replace(VIEW, events=many), now=20.0)


def test_a_list_has_a_line_for_each_job_and_one_for_all_warm_interpreters() -> None:
    running = replace(VIEW, id="run", phase=Phase.RUNNING, ready=2, why="", completed=None)

    lines = render_jobs.listed(JobList(jobs=(running, VIEW), warm=WARM), 600.0, 200)

    assert lines[1].split() == ["run", "PyTorchJob", "Running", "2/2", "0", "10m"]
    assert lines[2].split()[:5] == ["mnist", "PyTorchJob", "Failed", "-", "0"]
    assert lines[3:] == [
        "",
        "4 warm interpreters, 1 GiB: torch (x2), torch+lightning (stopped), tensorflow (starting)",
    ]


def test_warm_interpreters_have_a_line_each_where_they_are_asked_for() -> None:
    header, newest, *_, oldest = (line.split() for line in render_machine.warm_table(WARM, 600.0, 200))

    assert header == ["PID", "MEMORY", "STATE", "UNUSED", "PACKAGES"]
    assert newest == ["10", "256", "MiB", "starting", "0s", "tensorflow"]
    assert oldest == ["7", "256", "MiB", "ready", "9m", "torch"]


def test_lines_of_several_replicas_say_whose_they_are() -> None:
    job = build.job("PyTorchJob", build.role("Worker", 2), name="mnist", unit=RestartScope.GANG)
    line = LogLine(1.0, "mnist-worker-1", "main", "stdout", "hello")
    aside = LogLine(1.0, "mnist-worker-1", "sidecar", "stdout", "hello")

    plain, coloured = (Prefixes([job], colour=one, terminal=one) for one in (False, True))

    assert plain.line(line) == "[worker-1] hello"
    assert plain.line(aside) == "[worker-1/sidecar] hello"
    assert coloured.line(line) == "\x1b[36m[worker-1]\x1b[0m hello"


def test_lines_of_a_script_name_their_ranks() -> None:
    master, worker = build.role("Master", 1), build.role("Worker", 1)
    job, other = (
        build.job("PyTorchJob", master, worker, name=name, torchrun_environment=True)
        for name in ("train", "train-2")
    )
    lines = [LogLine(1.0, name, "main", "stdout", "hello") for name in ("train-master-0", "train-2-worker-0")]

    alone, among = (Prefixes(jobs, colour=False, terminal=False) for jobs in ([job], [job, other]))

    assert alone.line(lines[0]) == "[rank 0] hello"
    assert [among.line(line) for line in lines] == ["[train rank 0] hello", "[train-2 rank 1] hello"]


def test_lines_of_one_replica_have_no_prefix_and_those_of_several_jobs_the_full_name() -> None:
    one, other = build.job("PyTorchJob", name="one"), build.job("PyTorchJob", name="other")
    line = LogLine(1.0, "one-worker-0", "main", "stdout", "hello")

    assert Prefixes([one], colour=True, terminal=True).line(line) == "hello"
    assert Prefixes([one, other], colour=False, terminal=False).line(line) == "[one-worker-0] hello"


def test_a_status_line_has_phase_replicas_time_and_the_last_line() -> None:
    running = Glance("mnist", Phase.RUNNING, 1, 2, 0)
    queued = Glance("other", Phase.QUEUED, 0, 2, 0, waiting="needs 2 cpus, 0 free")

    assert status_line([running], "step 7", 72.0) == "mnist  Running 1/2  1:12  step 7"
    assert status_line([queued], "", 1.0) == "other  Queued 0/2  0:01  needs 2 cpus, 0 free"
    assert status_line([running, queued], "step 7", 1.0) == "2 jobs: 1 Running, 1 Queued  0:01  step 7"
    again = replace(running, attempt=2)
    assert status_line([again], "", 1.0) == "mnist  Running 1/2 (attempt 3)  0:01"


def test_a_sound_machine_has_no_problems() -> None:
    assert machine_checks.problems(MACHINE, home_is_shared=False) == []
    assert "frameworks  torch 2.13" in render_machine.shown(MACHINE)


def test_every_problem_of_a_machine_has_a_next_step() -> None:
    poor = replace(MACHINE, cgroups="", mounts=False, mpi="", interpreter=None, home_free=1000)

    found = machine_checks.problems(poor, home_is_shared=True)

    assert len(found) == 6
    assert all(problem.next for problem in found)
    shown = render_machine.shown(replace(poor, problems=tuple(found)))
    assert (
        sum(line.startswith("! ") for line in shown)
        == sum(line.startswith("  next: ") for line in shown)
        == 6
    )


PROGRESS = Progress(step=340, total=1000, rate=12.34, metric="loss", value=0.23114, reported=590.0)


@pytest.mark.parametrize("columns", [100, 80, 60, 40])
def test_a_list_shows_step_rate_and_main_metric_in_every_width(columns: int) -> None:
    running = replace(
        VIEW, id="digits-k3xq", phase=Phase.RUNNING, ready=2, why="", completed=None, progress=PROGRESS
    )
    waiting = replace(running, id="other", phase=Phase.QUEUED, progress=None, why="needs 2 cpus, " * 9)

    lines = render_jobs.listed(JobList(jobs=(running, waiting)), 600.0, columns)

    shown = "\n".join(lines)
    assert "341/1000, 12.3/s, loss 0.2311" in shown
    assert "digits-k3xq  " in shown
    assert "Queued" in shown
    assert "needs 2 cpus" in shown
    assert all(len(line) <= columns for line in lines)


@pytest.mark.parametrize("columns", [80, 40])
def test_a_job_is_shown_within_the_width_of_the_terminal(columns: int) -> None:
    running = replace(VIEW, phase=Phase.RUNNING, diagnosis=None, progress=PROGRESS, why="it waits " * 20)

    lines = render_jobs.shown(running, 600.0, columns)

    assert all(len(line) <= columns for line in lines), lines
    words = " ".join(" ".join(lines).split())
    assert "341 of 1000 steps (34 %), 12.3 steps/s, about 53 s left" in words
    assert "metric loss 0.2311" in words
    assert "it failed (x2)" in words


def test_an_ended_job_has_no_rate_and_a_stuck_one_says_how_old_its_number_is() -> None:
    ended = dict(render_progress.facts(PROGRESS, runs=False, now=5000.0))
    stuck = dict(render_progress.facts(PROGRESS, runs=True, now=5000.0))

    assert ended == {"progress": "341 of 1000 steps (34 %)", "metric": "loss 0.2311"}
    assert stuck["progress"] == ended["progress"]
    assert stuck["metric"] == "loss 0.2311 (reported 1 h 13 min ago)"


def test_a_job_without_a_total_or_a_finite_loss_shows_its_step() -> None:
    slow = Progress(step=7, rate=0.1, metric="train/loss\x1b[2J", value=None, reported=1.0)

    assert render_progress.cell(slow, runs=True, now=50.0) == "step 7, 10 s/step, train/loss not finite"
    assert render_progress.cell(slow, runs=False, now=50.0) == "step 7, train/loss not finite"
    assert render_progress.cell(None, runs=True, now=50.0) == ""
