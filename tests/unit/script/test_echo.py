"""What a rank reports is printed, too, where its files go with its pod."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bireme.runs.logs.log_metrics import EchoedRecords
from bireme.runs.metrics.metric_reader import MetricSource
from bireme.runtime.records import log_echo
from bireme.runtime.records.record_format import Scalars
from bireme.runtime.records.record_reader import file_name
from bireme.runtime.records.recorder import Recorder
from bireme.runtime.script.echo import Echo
from bireme.runtime.script.rank_env import RankEnv
from bireme.runtime.script.startup import metrics_folder

RANK_2 = RankEnv(rank=2, world_size=4, attempt=1)
HOUR = 3600.0
Point = tuple[tuple[int, int], int, float]


def points(lines: list[str]) -> list[Point]:
    """The life, step and loss of everything in lines."""
    reader = EchoedRecords()
    told = [one for line in lines for one in reader.reported(log_echo.taken_apart(line)[1])]
    return [
        (one.life, one.record.step, one.record.values["loss"])
        for one in told
        if isinstance(one.record, Scalars)
    ]


def report(folder: Path, rank: int, attempt: int, *steps: int) -> str:
    """Reports some steps as a process that begins and ends; returns the file."""
    recorder = Recorder(str(folder), rank, attempt, print)
    for step in steps:
        recorder.scalars(step, {"loss": step / 8})
    recorder.close()
    return recorder.path


def following(folder: Path, place: RankEnv = RANK_2, path: str = "") -> Echo:
    own = path or str(folder / file_name(place.rank, place.attempt))
    return Echo(str(folder), place, lambda: own)


def told(echo: Echo) -> list[Point]:
    return points(list(echo.portion(HOUR)))


def test_each_portion_has_what_is_new(tmp_path: Path) -> None:
    echo = following(tmp_path)
    assert told(echo) == []

    report(tmp_path, 2, 1, 5, 6)
    assert told(echo) == [((1, 0), 5, 0.625), ((1, 0), 6, 0.75)]

    assert told(echo) == []
    report(tmp_path, 2, 1, 7)
    assert told(echo) == [((1, 1), 7, 0.875)]


def test_before_the_first_portion_comes_the_past_of_this_rank_alone(tmp_path: Path) -> None:
    report(tmp_path, 2, 0, 1, 2)
    report(tmp_path, 0, 0, 3)
    report(tmp_path, 2, 1, 4)

    assert told(following(tmp_path)) == [((0, 0), 1, 0.125), ((0, 0), 2, 0.25), ((1, 0), 4, 0.5)]


def test_of_a_long_past_some_points_are_told(tmp_path: Path) -> None:
    report(tmp_path, 2, 0, *range(20_000))
    report(tmp_path, 2, 1, 20_000)

    steps = [step for _, step, _ in told(following(tmp_path))]

    assert 500 < len(steps) < 2100
    assert steps == sorted(steps)
    assert steps[0] < 100
    assert steps[-1] == 20_000


def test_each_of_two_processes_of_one_rank_tells_its_own(tmp_path: Path) -> None:
    first = Recorder(str(tmp_path), 2, 1, print)
    first.scalars(1, {"loss": 0.125})
    second = report(tmp_path, 2, 1, 2)
    first.close()

    assert told(following(tmp_path, path=first.path)) == [((1, 0), 1, 0.125)]
    assert told(following(tmp_path, path=second)) == [((1, 0), 2, 0.25)]


def test_records_that_were_removed_and_begun_again_are_told(tmp_path: Path) -> None:
    echo = following(tmp_path)
    report(tmp_path, 2, 1, *range(10))
    assert len(told(echo)) == 10

    (tmp_path / file_name(2, 1)).rename(tmp_path / "removed")
    report(tmp_path, 2, 1, 10)

    assert [step for _, step, _ in told(echo)] == [10]


def test_one_that_does_not_train_is_no_rank(tmp_path: Path) -> None:
    report(tmp_path, 0, 0, 1)

    (line,) = following(tmp_path, RankEnv(role="evaluator", trains=False)).portion(HOUR)

    (one,) = EchoedRecords().reported(log_echo.taken_apart(line)[1])
    assert one.source == MetricSource("evaluator-0")


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


@pytest.mark.parametrize(
    "before",
    [
        pytest.param("os.close(2); file = open('results.csv', 'w')", id="another file under its number"),
        pytest.param("os.dup2(os.open('/dev/full', os.O_WRONLY), 2)", id="a log that takes nothing"),
    ],
)
def test_a_log_that_is_gone_holds_up_nobody_and_is_mistaken_for_nothing(tmp_path: Path, before: str) -> None:
    script = f"import bireme, os\nrun = bireme.init()\n{before}\nrun.report(7, loss=0.875)\nrun.close()\n"
    environ = {**os.environ, "BIREME_ECHO": "1"}

    ended = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environ, timeout=60)

    assert ended.returncode == 0
    assert not (tmp_path / "results.csv").exists() or (tmp_path / "results.csv").read_text() == ""


def test_where_nothing_can_be_written_numbers_are_printed_all_the_same(tmp_path: Path) -> None:
    script = "import bireme\nwith bireme.init() as run: run.report(7, loss=0.875)\n"
    environ = {**os.environ, "BIREME_ECHO": "1", "BIREME_RUNS": "/proc/nowhere", "TMPDIR": str(tmp_path)}

    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60
    )

    assert points(ended.stderr.splitlines()) == [((0, 0), 7, 0.875)], ended.stderr


def test_nothing_is_printed_where_nobody_asks_for_it(tmp_path: Path) -> None:
    script = "import bireme\nwith bireme.init() as run: run.report(7, loss=0.875)\n"

    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_records_are_kept_beside_checkpoints_that_outlive_a_pod() -> None:
    in_a_pod = RankEnv(run="job-1")
    here = RankEnv(run="job-1", folder="/home/runs/job-1")

    assert metrics_folder(in_a_pod, "/claim/work") == "/claim/work/metrics/job-1"
    evaluator = RankEnv(run="job-1", role="evaluator", trains=False)
    assert metrics_folder(evaluator, "/claim/work") == "/claim/work/metrics/job-1/evaluator"
    assert metrics_folder(in_a_pod, "s3://bucket/work") == ""
    assert metrics_folder(in_a_pod, "") == ""
    assert metrics_folder(here, "/claim/work") == ""
    assert metrics_folder(RankEnv(), "/claim/work") == ""
