"""Numbers are found in what scripts print, as people print them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bireme.core.scripts import metric_patterns
from bireme.core.scripts.metric_patterns import Picked, compiled, picked


@pytest.mark.parametrize(
    ("line", "value", "step"),
    [
        ("loss: 0.3", 0.3, None),
        ("loss=0.3", 0.3, None),
        ("loss = 3e-4", 3e-4, None),
        ("loss 0.3", 0.3, None),
        ("Loss: -1.5.", -1.5, None),
        ("loss is .5", 0.5, None),
        ("loss: 1,234.5", 1234.5, None),
        ("loss: 71.3%", 71.3, None),
        ("Loss at step 10: 0.71", 0.71, 10),
        ("loss (step 10): 0.71", 0.71, 10),
        ("loss [iter 10] = 0.71", 0.71, 10),
        ("step 10, loss: 0.3", 0.3, 10),
        ("Step: 10/100 | lr 0.1 | loss 0.3", 0.3, 10),
        ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.3", 2.3, None),
        ("iteration 7 loss=0.3 acc=0.9", 0.3, 7),
        ("global_step = 12, loss = 0.3", 0.3, 12),
        ('{"loss": 0.3, "step": 4}', 0.3, 4),
        ("{'step': 4, 'loss': 0.3}", 0.3, 4),
        ("2026-01-01 INFO train loss: 0.3", 0.3, None),
        ("loss: inf", math.inf, None),
    ],
)
def test_a_name_is_found_as_people_print_it(line: str, value: float, step: int | None) -> None:
    assert picked([compiled("loss")], line) == (Picked("loss", value, step),)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "loss",
        "loss: none",
        "glosses 0.3",
        "val_loss: 0.3",
        "loss_scale: 1024",
        "loss: 0.3abc",
        "loss: infant",
        "loss: 12ms",
    ],
)
def test_what_only_looks_like_it_is_left_alone(line: str) -> None:
    assert picked([compiled("loss")], line) == ()


def test_a_number_that_is_not_one_is_found_too() -> None:
    (found,) = picked([compiled("loss")], "loss: nan")

    assert math.isnan(found.value)


def test_names_of_several_words_and_several_names_on_a_line() -> None:
    patterns = [compiled("val accuracy"), compiled("train/loss")]

    found = picked(patterns, "step 3 train/loss: 0.5 Val  Accuracy: 0.9")

    assert found == (Picked("val accuracy", 0.9, 3), Picked("train/loss", 0.5, 3))


def test_an_expression_says_name_value_and_step_itself() -> None:
    pattern = compiled(r"\[(?P<step>\d+)\] (?P<name>\w+) -> (?P<value>\S+)")

    assert picked([pattern], "[12] loss -> 0.5") == (Picked("loss", 0.5, 12),)
    assert picked([pattern], "[12] loss -> much") == ()


def test_an_expression_without_a_step_takes_none() -> None:
    pattern = compiled(r"(?P<name>\w+)=(?P<value>[\d.]+)")

    assert picked([pattern], "step 3 a=1 b=2") == (Picked("a", 1.0), Picked("b", 2.0))


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(?P<name>loss", "no regular expression"),
        ("loss: (.*)", r"no group \(\?P<name>\.\.\.\) and \(\?P<value>\.\.\.\)"),
        ("(?P<name>loss): .*", r"no group \(\?P<value>"),
    ],
)
def test_a_pattern_that_finds_nothing_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        compiled(pattern)


@given(st.text())
def test_no_line_is_too_odd(line: str) -> None:
    picked([compiled("loss"), compiled(r"(?P<name>\w+)=(?P<value>.*)")], line)


def test_a_line_without_end_takes_no_time_without_end() -> None:
    for text in ("loss " * 100_000, "1" * 500_000, "loss: " + "1_" * 200_000, "step " * 100_000):
        assert picked([compiled("loss")], text) == ()


def test_an_annotation_has_a_pattern_on_each_line() -> None:
    assert metric_patterns.split("loss\n\n  accuracy \n") == ("loss", "accuracy")
