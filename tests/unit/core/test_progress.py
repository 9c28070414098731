"""How far a job is follows from what was reported last."""

from __future__ import annotations

import pytest

from bireme.core.machine.progress import Point, main_metric, measured


def _points(*pairs: tuple[int, float], name: str = "loss") -> list[Point]:
    return [Point(step, time, {name: float(step)}) for step, time in pairs]


@pytest.mark.parametrize(
    ("names", "main"),
    [
        (["accuracy", "loss"], "loss"),
        (["accuracy", "val_loss", "train_loss"], "val_loss"),
        (["lr", "train/loss"], "train/loss"),
        (["accuracy", "glossary"], "accuracy"),
        ([], ""),
    ],
)
def test_the_main_metric_is_the_loss_else_the_first(names: list[str], main: str) -> None:
    assert main_metric(names) == main


def test_progress_is_the_last_step_with_its_rate_and_what_is_left() -> None:
    found = measured(_points((10, 100.0), (30, 110.0), (50, 120.0)), 100)

    assert found is not None
    assert (found.step, found.total, found.rate, found.metric, found.value) == (50, 100, 2.0, "loss", 50.0)
    assert (found.done, found.share, found.left) == (51, 0.51, 24.5)


def test_a_rank_that_was_started_again_is_measured_since_then() -> None:
    found = measured(_points((90, 100.0), (100, 101.0), (50, 131.0), (52, 132.0)))

    assert found is not None
    assert found.rate == 2.0


def test_the_rate_is_that_of_the_last_minute() -> None:
    found = measured(_points((0, 0.0), (1000, 100.0), (1010, 150.0)))

    assert found is not None
    assert found.rate == 0.2


def test_a_step_counted_from_one_is_never_more_than_the_total() -> None:
    found = measured(_points((100, 1.0)), 100)

    assert found is not None
    assert (found.done, found.share, found.rate, found.left) == (100, 1.0, None, None)


def test_nothing_reported_is_no_progress() -> None:
    assert measured([], 100) is None


@pytest.mark.parametrize("total", [True, "100", -1, 0, float("nan"), float("inf"), 10**40, None, [1]])
def test_what_cannot_be_a_total_is_none(total: object) -> None:
    found = measured(_points((1, 1.0)), total)

    assert found is not None
    assert found.total is None


def test_a_loss_that_is_not_finite_has_no_value() -> None:
    found = measured([Point(1, 1.0, {"loss": float("nan")})])

    assert found is not None
    assert found.value is None
