"""How far a run is, read from the files of its ranks while they are written."""

from __future__ import annotations

from pathlib import Path

from bireme.runs.metrics import progress_reader
from bireme.runs.metrics.metric_reader import FOLDER
from bireme.runtime.records import log_echo
from bireme.runtime.records.log_echo import Reporter
from bireme.runtime.records.record_format import Params, Scalars
from bireme.runtime.records.recorder import Recorder


class _Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def _recorder(folder: Path, clock: _Clock, rank: int = 0, attempt: int = 0) -> Recorder:
    return Recorder(str(folder / FOLDER), rank, attempt, print, clock)


def _report(recorder: Recorder, clock: _Clock, steps: range, every: float = 0.5) -> None:
    for step in steps:
        clock.now += every
        recorder.scalars(step, {"accuracy": 0.5, "loss": 1.0 / (step + 1)})


def test_the_last_step_of_the_newest_attempt_counts(tmp_path: Path) -> None:
    clock = _Clock()
    for attempt, steps in ((0, range(100)), (1, range(60, 80))):
        recorder = _recorder(tmp_path, clock, attempt=attempt)
        recorder.params({"total_steps": 200})
        _report(recorder, clock, steps)
        recorder.close()

    found = progress_reader.of(tmp_path)

    assert found is not None
    assert (found.step, found.total, found.rate, found.metric) == (79, 200, 2.0, "loss")
    assert found.value == 1 / 80


def test_a_file_that_is_being_written_is_read_and_a_rank_that_reports_nothing_is_passed_over(
    tmp_path: Path,
) -> None:
    clock = _Clock()
    silent, speaking = _recorder(tmp_path, clock, rank=0), _recorder(tmp_path, clock, rank=1)
    silent.params({"lr": 0.1})
    _report(speaking, clock, range(5))

    found = progress_reader.of(tmp_path)

    assert found is not None
    assert found.step == 4
    silent.close()
    speaking.close()


def test_of_a_long_file_only_the_ends_are_read(tmp_path: Path) -> None:
    clock = _Clock()
    recorder = _recorder(tmp_path, clock)
    recorder.params({"total_steps": 200_000})
    _report(recorder, clock, range(150_000))
    (path,) = (tmp_path / FOLDER).iterdir()
    assert path.stat().st_size > 2 * progress_reader.WHOLE
    middle = path.stat().st_size // 2
    with path.open("r+b") as file:  # nothing there may be needed
        file.seek(middle)
        file.write(bytes(4096))

    found = progress_reader.of(tmp_path)

    assert found is not None
    assert (found.step, found.total, found.rate) == (149_999, 200_000, 2.0)
    recorder.close()


def test_a_run_without_records_or_with_damaged_ones_has_no_progress(tmp_path: Path) -> None:
    assert progress_reader.of(tmp_path) is None
    folder = tmp_path / FOLDER
    folder.mkdir()
    (folder / "0-0.records").write_bytes(b"BIRECS1\n" + b"\xff" * 5_000_000)
    (folder / "1-0.records").write_bytes(b"nonsense")

    assert progress_reader.of(tmp_path) is None


def test_marked_lines_of_a_log_tell_the_newest_attempt_even_if_they_are_read_twice() -> None:
    def told(attempt: int, steps: range) -> list[str]:
        points = [Scalars(step, 100.0 * attempt + step / 2, {"loss": 1.0}) for step in steps]
        lines = log_echo.lines(Reporter(0, attempt, 0), [Params(1.0, {"total_steps": 50}), *points])
        return [line.removeprefix(log_echo.MARK) for line in lines]

    lines = [*told(0, range(30)), *told(1, range(20, 24))]
    found = progress_reader.echoed([*lines, "nonsense", *lines])

    assert found is not None
    assert (found.step, found.total, found.rate, found.metric) == (23, 50, 2.0, "loss")
    assert progress_reader.echoed(["{}"]) is None
