"""Numbers that replicas print are records too, in the attempt in which they were printed."""

from __future__ import annotations

from pathlib import Path

import msgspec

from bireme.model.job import METRICS_ANNOTATION
from bireme.runs import directory
from bireme.runs.directory import RunDirectory
from bireme.runs.logs import log_metrics
from bireme.runs.logs.log_entries import (
    Stream,
)
from bireme.runs.logs.log_writer import (
    LogWriter,
)
from bireme.runs.metrics.metric_reader import RunMetrics
from tests.unit.runs.run_fixtures import context, desired


def _run(home: Path, patterns: str) -> RunDirectory:
    wanted = desired()
    annotated = msgspec.structs.replace(wanted.job, annotations={METRICS_ANNOTATION: patterns})
    run, lock = directory.create(home, msgspec.structs.replace(wanted, job=annotated), context())
    lock.close()
    return run


def _print(run: RunDirectory, replica: str, *lines: tuple[float, str]) -> None:
    writer = LogWriter(run.logs, replica, "main")
    for now, text in lines:
        writer.feed(Stream.STDOUT, f"{text}\n".encode(), now)
    writer.close(lines[-1][0])


def _started(run: RunDirectory, replica: str, attempt: int, at: float) -> None:
    uid = f"{replica}.{attempt}"
    began = {"type": "began", "uid": uid, "replica": replica, "role": "worker", "index": 0}
    ran = {"type": "ran", "uid": uid, "container": "main", "pid": 1, "start_time": 1, "warm": False, "at": at}
    with run.journal_path.open("ab") as file:
        for entry in (began | {"attempt": attempt, "at": at}, ran, {"type": "gone", "uid": uid, "at": at}):
            file.write(msgspec.json.encode(entry) + b"\n")


def _points(metrics: RunMetrics, name: str) -> dict[str, list[tuple[int, float, float]]]:
    metrics.refresh()
    return {
        one.source.name: list(zip(one.steps, one.times, one.values, strict=True))
        for one in metrics.series(name)
    }


def test_numbers_of_each_replica_are_found_as_they_are_printed(tmp_path: Path) -> None:
    run = _run(tmp_path, "loss\naccuracy")
    metrics = RunMetrics(*log_metrics.feeds(run))

    _print(run, "mnist-worker-0", (1.0, "hello"), (2.0, "step 5 loss: 0.5 accuracy=0.25"))
    assert metrics.refresh()
    _print(run, "mnist-worker-1", (3.0, "loss: 0.5"), (4.0, "loss: 0.25"))
    assert metrics.refresh()
    assert not metrics.refresh()

    assert _points(metrics, "loss") == {
        "worker-0": [(5, 2.0, 0.5)],
        "worker-1": [(0, 3.0, 0.5), (1, 4.0, 0.25)],
    }
    assert _points(metrics, "accuracy") == {"worker-0": [(5, 2.0, 0.25)]}


def test_a_later_attempt_supersedes_the_steps_that_it_repeats(tmp_path: Path) -> None:
    run = _run(tmp_path, "loss")
    _started(run, "mnist-worker-0", 0, 1.0)
    _started(run, "mnist-worker-0", 1, 10.0)
    lines = [(2.0 + step, f"step {step} loss: 0.0") for step in range(4)]
    lines += [(10.5 + step, f"step {step} loss: 1.0") for step in range(2, 6)]
    _print(run, "mnist-worker-0", *lines)

    found = _points(RunMetrics(*log_metrics.feeds(run)), "loss")

    assert [(step, value) for step, _, value in found["worker-0"]] == [
        (0, 0.0),
        (1, 0.0),
        *((step, 1.0) for step in range(2, 6)),
    ]


def test_a_step_that_begins_anew_in_each_epoch_supersedes_nothing(tmp_path: Path) -> None:
    run = _run(tmp_path, "loss")
    _started(run, "mnist-worker-0", 0, 1.0)
    _print(run, "mnist-worker-0", *((2.0 + i, f"step {i % 3} loss: {i}") for i in range(6)))

    found = _points(RunMetrics(*log_metrics.feeds(run)), "loss")

    assert len(found["worker-0"]) == 6


def test_a_run_without_patterns_does_not_read_its_logs(tmp_path: Path) -> None:
    run = _run(tmp_path, "")
    _print(run, "mnist-worker-0", (1.0, "loss: 0.5"))

    assert not RunMetrics(*log_metrics.feeds(run)).refresh()


def test_names_and_steps_that_a_hostile_line_makes_up_do_no_harm(tmp_path: Path) -> None:
    run = _run(tmp_path, r"(?P<name>\S+) = (?P<value>\S+) at (?P<step>\S+)" + "\nloss")
    metrics = RunMetrics(*log_metrics.feeds(run))
    lines = [f"loss: 0.5 step {2**63 - 1024}", *(["loss: 0.5"] * 1100)]

    _print(run, "mnist-worker-0", (1.0, "\x1b[2Jx = 1 at 5"), (2.0, "y = 1 at -5"), (2.0, "z = 1 at 7"))
    _print(run, "mnist-worker-1", *((3.0, line) for line in lines))

    assert _points(metrics, "z") == {"worker-0": [(7, 2.0, 1.0)]}
    assert _points(metrics, "y") == {"worker-0": [(0, 2.0, 1.0)]}
    assert metrics.names() == ("y", "z", "loss")
    assert len(_points(metrics, "loss")["worker-1"]) == 1101
