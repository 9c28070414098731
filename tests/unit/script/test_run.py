"""Does a run do what a script asks of it, alone, without any platform?"""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import numpy
import pytest
import torch
from torch import nn

import bireme
from bireme.runtime.checkpoints.values import Keep
from bireme.runtime.records import record_reader
from bireme.runtime.records.record_format import Scalars
from bireme.runtime.script import notes
from bireme.runtime.script.complaints import Complaint, NotFinite
from bireme.runtime.script.rank_env import RankEnv
from bireme.runtime.script.run import LEFT, Run
from bireme.runtime.script.run_settings import RunSettings, origin
from bireme.runtime.script.startup import run_folder
from tests.unit.script.script_fixtures import opened, steps_in


def test_what_was_reported_can_be_read_by_others_at_once(tmp_path: Path) -> None:
    run = opened(tmp_path)

    run.report(3, loss=torch.tensor(0.5), accuracy=0.25)

    (file,) = record_reader.files(str(tmp_path / "metrics"))
    (record,) = [one for one in record_reader.RecordReader(file.path).read() if isinstance(one, Scalars)]
    assert (record.step, dict(record.values)) == (3, {"loss": 0.5, "accuracy": 0.25})
    run.close()


def test_steps_are_saved_when_due_and_at_the_end(tmp_path: Path) -> None:
    with opened(tmp_path) as run:
        for step in range(12):
            run.save(step, count={"step": step})

    assert steps_in(tmp_path) == [4, 9, 11]


def test_an_error_in_the_script_saves_nothing_more(tmp_path: Path) -> None:
    def script() -> None:
        with opened(tmp_path) as run:
            for step in range(8):
                run.save(step, count={"step": step})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        script()

    assert steps_in(tmp_path) == [4]


def test_a_second_run_goes_on_after_the_last_step(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    with opened(tmp_path) as run:
        assert run.restore(model=model) == 0
        run.save_now(4, model=model, best={"loss": 0.5})
    other = nn.Linear(2, 2)

    with opened(tmp_path) as run:
        start = run.restore(model=other, best=None)

    assert start == 5
    assert start.values["best"] == {"loss": 0.5}
    assert torch.equal(other.weight, model.weight)


def test_a_request_to_end_is_answered_by_a_checkpoint(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)

    def script() -> None:
        with opened(tmp_path, every=100) as run:
            for step in range(10):
                if step == 3:
                    os.kill(os.getpid(), signal.SIGTERM)
                run.save(step, count={"step": step})

    with pytest.raises(SystemExit) as ended:
        script()

    assert ended.value.code == LEFT
    assert steps_in(tmp_path) == [3]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_process_that_the_rank_forked_ends_when_it_is_asked_to(tmp_path: Path) -> None:
    with opened(tmp_path) as run:
        run.save(0, count={"step": 0})
        ready, say = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(say, b"!")  # Python forgets a signal that comes while it forks
            while True:
                time.sleep(0.01)
        os.read(ready, 1)
        os.kill(child, signal.SIGTERM)

        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM


@pytest.mark.parametrize("step", [numpy.int64(7), torch.tensor(7), 7])
def test_a_step_may_be_a_number_of_any_library(tmp_path: Path, step: int) -> None:
    with opened(tmp_path) as run:
        run.save(step, count=1)

    assert steps_in(tmp_path) == [7]


def test_what_is_not_a_rank_leaves_saving_to_the_workers(tmp_path: Path) -> None:
    settings = RunSettings(str(tmp_path / "checkpoints"), Keep(), every=1)
    with Run(RankEnv(role="evaluator", trains=False), str(tmp_path), settings) as run:
        run.save(0, count=1)
        run.save_now(1, count=1)

    assert steps_in(tmp_path) == []


@pytest.mark.parametrize("step", [-1, 1.5, "x", None])
def test_what_is_not_the_number_of_a_step_is_refused(tmp_path: Path, step: int) -> None:
    with opened(tmp_path) as run, pytest.raises(Complaint, match="not the number of a step"):
        run.save(step, count=1)
    with opened(tmp_path) as run, pytest.raises(Complaint, match="not the number of a step"):
        run.save_now(step, count=1)


def test_a_script_with_an_answer_of_its_own_keeps_it(tmp_path: Path) -> None:
    heard = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        with opened(tmp_path, every=100) as run:
            os.kill(os.getpid(), signal.SIGTERM)
            run.save(0, count={"step": 0})
            run.save(1, count={"step": 1})
    finally:
        signal.signal(signal.SIGTERM, before)

    assert heard == [signal.SIGTERM]


def test_a_run_continues_another_at_the_step_that_was_named(tmp_path: Path) -> None:
    with opened(tmp_path / "old", every=1, run="old") as old:
        for step in range(3):
            old.save(step, count={"step": step})

    with opened(tmp_path / "new", origin=f"{tmp_path / 'old' / 'checkpoints'}@1", run="new") as new:
        start = new.restore(count=None)
        new.save_now(int(start), count={"step": 2})

    assert start == 2
    assert start.values["count"] == {"step": 1}
    assert steps_in(tmp_path / "old") == [0, 1, 2]
    assert steps_in(tmp_path / "new") == [2]


def test_its_own_checkpoints_come_before_those_it_continues(tmp_path: Path) -> None:
    with opened(tmp_path / "old", run="old") as old:
        old.save_now(7, count={"step": 7})
    where = str(tmp_path / "old" / "checkpoints")
    with opened(tmp_path / "new", origin=where, run="new") as new:
        new.restore(count=None)
        new.save_now(9, count={"step": 9})

    with opened(tmp_path / "new", origin=where, run="new") as again:
        assert again.restore(count=None) == 10


def test_nothing_to_continue_from_is_an_error(tmp_path: Path) -> None:
    with (
        opened(tmp_path / "new", origin=str(tmp_path / "old")) as run,
        pytest.raises(Complaint, match=r"no good checkpoint in .*bireme checkpoints"),
    ):
        run.restore(count=None)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_ends_the_script_if_asked(tmp_path: Path, value: float) -> None:
    with opened(tmp_path) as patient:
        patient.report(1, loss=value)

    with opened(tmp_path, stop_on_nan=True) as run, pytest.raises(NotFinite, match=r"loss .* step 2"):
        run.report(2, loss=value)


def test_a_full_run_folder_does_not_stop_the_training(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")

    with opened(blocked / "run") as run:
        for step in range(10):
            run.report(step, loss=1.0)
            run.save(step, count={"step": step})

    assert run.is_closed


def test_others_find_where_the_checkpoints_are(tmp_path: Path) -> None:
    assert notes.checkpoints(str(tmp_path)) == str(tmp_path / "checkpoints")

    notes.note_checkpoints(str(tmp_path), "s3://bucket/run")

    assert notes.checkpoints(str(tmp_path)) == "s3://bucket/run"


def test_init_gives_the_same_run_until_it_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with bireme.init() as run:
        assert bireme.init() is run
        assert (run.rank, run.world_size, run.device.partition(":")[0]) == (
            0,
            1,
            run.device.partition(":")[0],
        )
    with bireme.init() as another:
        assert another is not run


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"every": 0}, "every"),
        ({"keep": 0}, "at least one"),
        ({"keep": "3"}, "at least one"),
        ({"best": 3}, "loss:min"),
        ({"checkpoints": "ftp://host/folder"}, "a folder, or one of s3"),
        ({"best": "loss"}, "loss:min"),
        ({"best": "loss:least"}, "loss:min"),
    ],
)
def test_bad_options_are_refused_with_an_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, object], says: str
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(Complaint, match=says):
        bireme.init(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("script", "session", "name"),
    [
        ("/home/me/train.py", "", "train"),
        ("-c", "", "c"),
        ("", "", "python"),
        ("/home/me/package/__main__.py", "", "package"),
        ("/lib/ipykernel_launcher.py", "/home/me/digits.ipynb", "digits"),
        ("/lib/ipykernel_launcher.py", "", "notebook"),
    ],
)
def test_without_a_platform_the_run_is_kept_beside_the_work(script: str, session: str, name: str) -> None:
    environ = {"BIREME_RUNS": "/runs", "JPY_SESSION_NAME": session}

    assert run_folder(RankEnv(), environ, script) == f"/runs/{name}"


def test_checkpoints_may_be_kept_in_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    for where in (tmp_path / "checkpoints", "~/checkpoints"):
        with bireme.init(checkpoints=where) as run:
            run.save(run.restore(), count=1)

    assert steps_in(tmp_path) == [0, 1]


def test_a_run_whose_folder_was_removed_makes_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(tmp_path / "run") as run:
        for step in range(12):
            run.report(step, loss=1.0)
            run.save(step, count=step)
            if step == 6:
                assert run.restore() == 5  # which waits until step 4 is on disk
                shutil.rmtree(tmp_path / "run")

    (file,) = record_reader.files(str(tmp_path / "run" / "metrics"))
    records = [one for one in record_reader.RecordReader(file.path).read() if isinstance(one, Scalars)]
    assert "was removed" in capsys.readouterr().err
    assert (steps_in(tmp_path / "run"), [one.step for one in records]) == ([9, 11], [10, 11])
    assert (tmp_path / "run" / "checkpoints" / "owner-000001.json").exists()


def test_what_is_reported_after_the_end_is_refused_with_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(tmp_path) as run:
        run.report(1, loss=1.0)

    run.report(2, loss=1.0)

    assert "after the run was closed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "expected"),
    [("/a/b", ("/a/b", None)), ("/a/b@12", ("/a/b", 12)), ("s3://x@y/z", ("s3://x@y/z", None))],
)
def test_an_origin_may_name_a_step(text: str, expected: tuple[str, int | None]) -> None:
    assert origin(text) == expected


@pytest.mark.parametrize("part", [object(), {"deep": [open]}, Run])
def test_a_part_that_cannot_be_saved_is_found_at_the_first_step_and_not_when_it_is_due(
    tmp_path: Path, part: object
) -> None:
    run = opened(tmp_path, every=100)

    with pytest.raises(Complaint, match="cannot be saved"):
        run.save(0, part=part)
    run.close()


def test_the_folder_of_another_run_is_refused_at_the_first_step_and_not_when_it_is_due(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, run="first") as run:
        run.save_now(0, count=0)

    second = opened(tmp_path, every=100, run="second")
    with pytest.raises(Complaint, match="another run, first"):
        second.save(0, count=0)
    second.close()


def test_what_has_no_shape_before_the_first_batch_is_no_reason_to_end_before_it_is_due(
    tmp_path: Path,
) -> None:
    torch = pytest.importorskip("torch")
    with opened(tmp_path, every=100) as run:
        model = torch.nn.LazyLinear(2)
        run.save(0, model=model)
        model(torch.zeros(1, 3))
        run.save(1, model=model)

    assert steps_in(tmp_path) == [1]


def test_a_script_that_saves_and_never_restores_is_told_once_that_it_begins_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(tmp_path, every=1) as run:
        run.save(3, count=3)
    assert "restore" not in capsys.readouterr().err

    with opened(tmp_path, every=1) as run:
        run.save(0, count=0)
        run.save(1, count=1)

    (said,) = [line for line in capsys.readouterr().err.splitlines() if "restore" in line]
    assert "step-000000003" in said
    assert "start = run.restore(" in said


def test_a_script_that_restores_is_not_told_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        with opened(tmp_path, every=1) as run:
            start = run.restore(count=0)
            run.save(start, count=1)

    assert "run.restore(" not in capsys.readouterr().err


def test_a_script_that_never_restores_is_told_that_from_has_no_effect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(tmp_path / "old", every=1) as run:
        run.save(3, count=3)
    with opened(tmp_path / "new", every=1, origin=str(tmp_path / "old" / "checkpoints")) as run:
        run.save(0, count=0)

    assert "--from" in capsys.readouterr().err


def test_an_option_that_save_does_not_have_is_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(tmp_path) as run:
        for step in range(3):
            run.save(step, count={"step": step}, force=True)

    (told,) = [line for line in capsys.readouterr().err.splitlines() if "force" in line]
    assert (
        "force=True is saved as a part: save has no options; to save at once: run.save_now(step, ...)" in told
    )
