"""What a rank reports is printed, too, where its files go with its pod."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bireme.runs import echoed
from bireme.runs.metrics import Source
from bireme.runtime.records import echoes
from bireme.runtime.records.layout import Scalars
from bireme.runtime.records.writing import Recorder
from bireme.runtime.script.echoing import Echo
from bireme.runtime.script.places import Place
from bireme.runtime.script.starting import metrics_folder

RANK_2 = Place(rank=2, world_size=4, attempt=1)
Point = tuple[tuple[int, int], int, float]


def points(lines: list[str]) -> list[Point]:
    """The life, step and loss of everything in lines."""
    told = [one for line in lines for one in echoed.reported(echoes.taken_apart(line)[1])]
    return [
        (one.life, one.record.step, one.record.values["loss"])
        for one in told
        if isinstance(one.record, Scalars)
    ]


def report(folder: Path, rank: int, attempt: int, *steps: int) -> None:
    recorder = Recorder(str(folder), rank, attempt, print)
    for step in steps:
        recorder.scalars(step, {"loss": step / 8})
    recorder.close()


def test_each_portion_has_what_is_new(tmp_path: Path) -> None:
    echo = Echo(str(tmp_path), RANK_2)
    assert echo.portion() == []

    report(tmp_path, 2, 1, 5, 6)
    assert points(echo.portion()) == [((1, 0), 5, 0.625), ((1, 0), 6, 0.75)]

    assert echo.portion() == []
    report(tmp_path, 2, 1, 7)
    assert points(echo.portion()) == [((1, 1), 7, 0.875)]


def test_the_first_portion_has_the_past_of_this_rank_alone(tmp_path: Path) -> None:
    report(tmp_path, 2, 0, 1, 2)
    report(tmp_path, 0, 0, 3)
    report(tmp_path, 2, 1, 4)

    told = points(Echo(str(tmp_path), RANK_2).portion())

    assert told == [((0, 0), 1, 0.125), ((0, 0), 2, 0.25), ((1, 0), 4, 0.5)]


def test_one_that_does_not_train_is_no_rank(tmp_path: Path) -> None:
    report(tmp_path, 0, 0, 1)

    (line,) = Echo(str(tmp_path), Place(role="evaluator", trains=False)).portion()

    (told,) = echoed.reported(echoes.taken_apart(line)[1])
    assert told.source == Source("evaluator-0")


def test_a_log_that_cannot_be_written_holds_up_nobody(tmp_path: Path) -> None:
    def full(data: bytes) -> None:
        raise OSError(28, "No space left on device")

    echo = Echo(str(tmp_path), RANK_2, full)
    echo.start()
    report(tmp_path, 2, 1, 1)

    echo.close()


@pytest.mark.parametrize(
    ("ending", "status"), [("run.close()", 0), ("", 0), ("raise SystemExit(3)", 3), ("1 / 0", 1)]
)
def test_however_a_script_ends_its_last_numbers_are_printed(tmp_path: Path, ending: str, status: int) -> None:
    script = f"import bireme\nrun = bireme.init()\nrun.report(7, loss=0.875)\n{ending}\n"
    environ = {**os.environ, "BIREME_ECHO": "1", "BIREME_ATTEMPT": "0", "BIREME_RUN": "job/"}

    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60
    )

    assert ended.returncode == status, ended.stderr
    assert points(ended.stderr.splitlines()) == [((0, 0), 7, 0.875)]
    assert ended.stdout == ""


def test_nothing_is_printed_where_nobody_asks_for_it(tmp_path: Path) -> None:
    script = "import bireme\nwith bireme.init() as run: run.report(7, loss=0.875)\n"

    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_records_are_kept_beside_checkpoints_that_outlive_a_pod() -> None:
    in_a_pod = Place(run="job-1")
    here = Place(run="job-1", folder="/home/runs/job-1")

    assert metrics_folder(in_a_pod, "/claim/work") == "/claim/work/metrics/job-1"
    evaluator = Place(run="job-1", role="evaluator", trains=False)
    assert metrics_folder(evaluator, "/claim/work") == "/claim/work/metrics/job-1/evaluator"
    assert metrics_folder(in_a_pod, "s3://bucket/work") == ""
    assert metrics_folder(in_a_pod, "") == ""
    assert metrics_folder(here, "/claim/work") == ""
    assert metrics_folder(Place(), "/claim/work") == ""
