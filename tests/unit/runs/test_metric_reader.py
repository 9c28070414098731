"""What counts of a run's records: everything that was reported last, from all ranks and attempts."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from bireme.runs.metrics.metric_reader import MetricSource, RecordFollower, Reported, RunMetrics
from bireme.runtime.records.record_format import Scalars
from bireme.runtime.records.recorder import Recorder


def _report(folder: Path, rank: int, attempt: int, steps: range, value: float, name: str = "loss") -> None:
    recorder = Recorder(str(folder), rank, attempt, print, lambda: 1000.0 + attempt)
    for step in steps:
        recorder.scalars(step, {name: value})
    recorder.close()


def _values(metrics: RunMetrics, name: str = "loss") -> dict[str, list[tuple[int, float]]]:
    metrics.refresh()
    return {one.source.name: list(zip(one.steps, one.values, strict=True)) for one in metrics.series(name)}


def test_a_later_attempt_supersedes_the_steps_that_it_repeats(tmp_path: Path) -> None:
    _report(tmp_path, 0, 0, range(10), 0.0)
    _report(tmp_path, 0, 1, range(6, 8), 1.0)

    found = _values(RunMetrics(RecordFollower(tmp_path)))

    assert found == {"rank-0": [(step, 0.0) for step in range(6)] + [(6, 1.0), (7, 1.0)]}


def test_ranks_that_a_later_attempt_has_no_more_are_superseded_too(tmp_path: Path) -> None:
    for rank in (0, 1):
        _report(tmp_path, rank, 0, range(5), 0.0)
    _report(tmp_path, 0, 1, range(3, 5), 1.0)

    found = _values(RunMetrics(RecordFollower(tmp_path)))

    assert [step for step, _ in found["rank-1"]] == [0, 1, 2]


def test_names_with_steps_of_their_own_do_not_supersede_each_other(tmp_path: Path) -> None:
    _report(tmp_path, 0, 0, range(100), 0.0)
    _report(tmp_path, 0, 0, range(5), 0.0, "accuracy")
    _report(tmp_path, 0, 1, range(80, 120), 1.0)
    _report(tmp_path, 0, 1, range(4, 6), 1.0, "accuracy")

    metrics = RunMetrics(RecordFollower(tmp_path))

    assert [step for step, _ in _values(metrics)["rank-0"]] == list(range(120))
    assert [value for _, value in _values(metrics, "accuracy")["rank-0"]] == [0.0] * 4 + [1.0] * 2
    assert metrics.names() == ("loss", "accuracy")


def test_a_rank_that_was_started_again_supersedes_only_itself(tmp_path: Path) -> None:
    for rank in (0, 1):
        _report(tmp_path, rank, 0, range(5), 0.0)
    _report(tmp_path, 1, 0, range(2, 4), 1.0)

    found = _values(RunMetrics(RecordFollower(tmp_path)))

    assert found["rank-0"] == [(step, 0.0) for step in range(5)]
    assert found["rank-1"] == [(0, 0.0), (1, 0.0), (2, 1.0), (3, 1.0)]


def test_histograms_images_and_texts_are_superseded_likewise(tmp_path: Path) -> None:
    for attempt, steps in ((0, (1, 2, 3)), (1, (2,))):
        recorder = Recorder(str(tmp_path), 0, attempt, print)
        for step in steps:
            recorder.text(step, "sample", f"{attempt} {step}")
        recorder.params({"attempt": attempt, "lr": 0.1})
        recorder.close()

    metrics = RunMetrics(RecordFollower(tmp_path))
    metrics.refresh()

    assert [getattr(one.record, "text", "") for one in metrics.others()] == ["0 1", "1 2"]
    assert metrics.params() == {"attempt": 1, "lr": 0.1}


def test_what_comes_later_is_added(tmp_path: Path) -> None:
    metrics = RunMetrics(RecordFollower(tmp_path / "metrics"))
    assert not metrics.refresh()

    _report(tmp_path / "metrics", 0, 0, range(3), 0.0)
    assert metrics.refresh()
    _report(tmp_path / "metrics", 0, 1, range(2, 4), 1.0)
    assert metrics.refresh()
    assert not metrics.refresh()

    assert _values(metrics)["rank-0"] == [(0, 0.0), (1, 0.0), (2, 1.0), (3, 1.0)]


class _Given:
    def __init__(self, *reported: Reported) -> None:
        self._reported = list(reported)

    def poll(self) -> list[Reported]:
        reported, self._reported = self._reported, []
        return reported


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 30)), min_size=1, max_size=5))
def test_attempts_that_go_on_from_any_checkpoint_leave_one_line(spans: list[tuple[int, int]]) -> None:
    """The model: a list of values by step, cut and continued by every attempt."""
    expected: dict[int, float] = {}
    reported = []
    for attempt, (first, count) in enumerate(spans):
        expected = {step: value for step, value in expected.items() if step < first}
        for step in range(first, first + count):
            expected[step] = float(attempt)
            record = Scalars(step, 0.0, {"loss": float(attempt)})
            reported.append(Reported(MetricSource("rank-0", 0), (attempt, 0), record))

    found = _values(RunMetrics(_Given(*reported)))

    assert dict(found["rank-0"]) == expected
