"""A silent job is noticed if it was not silent before."""

from __future__ import annotations

import pytest

from bireme.core.machine import stalls


def test_steps_that_stop_coming_are_a_stall() -> None:
    steps = [float(second) for second in range(20)]

    assert stalls.silence(steps, [], now=19 + 59) is None
    assert stalls.silence(steps, [], now=19 + 61) == 61


def test_slow_steps_have_ten_times_their_usual_time() -> None:
    steps = [60.0 * minute for minute in range(10)]

    assert stalls.silence(steps, [], now=540 + 590) is None
    assert stalls.silence(steps, [], now=540 + 610) == 610


def test_a_job_that_never_made_progress_does_not_stall() -> None:
    assert stalls.silence([], [], now=1e6) is None
    assert stalls.silence([1.0, 2.0], [1.0, 2.0], now=1e6) is None


def test_lines_of_the_start_alone_are_no_pace() -> None:
    loading = [float(second) / 10 for second in range(50)]

    assert stalls.silence([], loading, now=1000.0) is None


def test_lines_that_came_for_a_while_and_stop_are_a_stall() -> None:
    epochs = [10.0 * number for number in range(20)]

    assert stalls.silence([], epochs, now=190 + 101) == 101


def test_bursts_of_lines_with_long_pauses_have_three_times_their_longest_pause() -> None:
    bursts = [300.0 * epoch + line / 10 for epoch in range(4) for line in range(20)]
    last = bursts[-1]

    assert stalls.silence([], bursts, now=last + 600) is None
    assert stalls.silence([], bursts, now=last + 1000) == pytest.approx(1000)


def test_a_line_after_the_last_step_is_a_sign_of_life() -> None:
    steps = [float(second) for second in range(20)]

    assert stalls.silence(steps, [70.0], now=80.0) is None
