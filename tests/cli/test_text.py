"""Text fits its terminal, and numbers for people have units and few digits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bireme.cli.render import text


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0.0 s"),
        (3.21, "3.2 s"),
        (9.97, "10 s"),
        (45, "45 s"),
        (312, "5 min 12 s"),
        (300, "5 min"),
        (11_100, "3 h 5 min"),
        (351_000, "4 d 1 h"),
        (-1, "0.0 s"),
    ],
)
def test_durations(seconds: float, shown: str) -> None:
    assert text.duration(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(12, "12s"), (119, "119s"), (600, "10m"), (9000, "2h"), (200_000, "2d")]
)
def test_ages(seconds: float, shown: str) -> None:
    assert text.age(seconds) == shown


@pytest.mark.parametrize(("seconds", "shown"), [(0.9, "0:00"), (72, "1:12"), (3723, "1:02:03")])
def test_clocks(seconds: float, shown: str) -> None:
    assert text.clock(seconds) == shown


def test_a_table_aligns_its_columns_and_cuts_the_last() -> None:
    lines = text.table(("NAME", "WHY"), [("a", "because of this"), ("long-name", "")], 20)

    assert lines == ["NAME       WHY", "a          because…", "long-name"]


def test_an_empty_table_has_no_header() -> None:
    assert text.table(("NAME",), [], 80) == []


def test_wide_letters_count_twice() -> None:
    assert text.width("日本") == 4
    assert text.cut("日本語", 5) == "日本…"


def test_escape_sequences_do_not_reach_a_status_line() -> None:
    assert text.plain("\x1b[31mred\x1b[0m\x1b]0;title\x07\ttab\x07") == "red tab "


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_what_is_cut_fits(given_text: str, columns: int) -> None:
    assert text.width(text.cut(text.plain(given_text), columns)) <= columns


def test_one_long_name_does_not_take_a_list_its_header() -> None:
    header = ("NAME", "PHASE", "PROGRESS", "WHY")
    rows = [
        ("fine-tuning-of-a-large-model", "Running", "step 1200/40000", "runs on " + "m" * 40),
        ("a", "b", "", ""),
    ]

    for columns in (72, 80):
        lines = text.sheet(header, rows, columns, keeps=True)
        assert lines[0].split() == list(header)
        assert len(lines) == 3
        assert all(len(line) <= columns for line in lines)
