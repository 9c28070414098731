"""Durations and times are understood as people write them."""

from __future__ import annotations

from datetime import datetime

import pytest

from bireme import errors
from bireme.cli import option_values


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("90", 90.0),
        ("45s", 45.0),
        ("10m", 600.0),
        ("2h30m", 9000.0),
        ("1d", 86400.0),
        ("200ms", 0.2),
        ("1.5h", 5400.0),
    ],
)
def test_spans(written: str, seconds: float) -> None:
    assert option_values.span(written, "--timeout") == seconds


@pytest.mark.parametrize("written", ["", "soon", "10x", "-5m", "m", "1h?", "9" * 50])
def test_what_is_no_span_is_refused_with_examples(written: str) -> None:
    with pytest.raises(errors.BadInput, match="is not a duration") as caught:
        option_values.span(written, "--timeout")

    assert "2h30m" in caught.value.hint


def test_moments_are_times_ago_or_dates() -> None:
    assert option_values.moment("10m", 1000.0, "--since") == 400.0
    assert option_values.moment("2026-01-31T12:00:00Z", 0.0, "--since") == 1769860800.0
    assert option_values.moment("2026-01-31", 0.0, "--since") == datetime(2026, 1, 31).timestamp()


def test_what_is_no_moment_is_refused() -> None:
    with pytest.raises(errors.BadInput, match="neither a duration nor a time"):
        option_values.moment("2026-13-45", 0.0, "--since")
