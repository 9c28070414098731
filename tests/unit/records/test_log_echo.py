"""What a rank reported can be read again from the lines of a log."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bireme.runtime.records import log_echo
from bireme.runtime.records.log_echo import MARK, Reporter
from bireme.runtime.records.record_format import Histogram, Params, Record, Scalars, Text

WHO = Reporter(rank=3, attempt=1, start=2)
names = st.text(min_size=1, max_size=20).filter(str.isprintable)
times = st.integers(0, 2**40).map(lambda milliseconds: milliseconds / 1000)
values = st.dictionaries(names, st.floats(allow_nan=False), min_size=1, max_size=10)
records = st.one_of(
    st.builds(Scalars, st.integers(0, 2**62), times, values),
    st.builds(Text, st.integers(0, 2**62), times, names, st.text(max_size=100)),
)


def read_again(lines: list[str]) -> list[Record]:
    found: list[Record] = []
    for line in lines:
        own, echoed = log_echo.taken_apart(line)
        read = log_echo.read(echoed)
        assert own == ""
        assert read is not None
        assert read[0] == WHO
        found += read[1]
    return found


@given(st.lists(records, max_size=30))
def test_scalars_and_texts_come_back_as_they_were(given: list[Record]) -> None:
    lines = list(log_echo.lines(WHO, given))

    assert read_again(lines) == given
    assert all("\n" not in line for line in lines)


def test_numbers_that_are_not_finite_come_back_too() -> None:
    (found,) = read_again(list(log_echo.lines(WHO, [Scalars(1, 2.0, {"a": math.nan, "b": -math.inf})])))

    assert isinstance(found, Scalars)
    assert math.isnan(found.values["a"])
    assert found.values["b"] == -math.inf


def test_many_records_take_several_lines_none_of_them_too_long() -> None:
    given = [Scalars(step, 1.0, {"loss": 0.1}) for step in range(2000)]

    lines = list(log_echo.lines(WHO, given))

    assert read_again(lines) == given
    assert len(lines) > 1
    assert max(map(len, lines)) < 2 * log_echo.LONGEST_LINE


def test_parameters_come_back_and_pictures_do_not() -> None:
    given: list[Record] = [
        Params(1.0, {"rate": 0.1, "file": object}),
        Histogram(1, 1.0, "weights", (1,), (0.0, 1.0)),
    ]

    found = read_again(list(log_echo.lines(WHO, given)))

    assert found == [Params(1.0, {"rate": 0.1}), Params(1.0, {"file": "<class 'object'>"})]


def test_what_a_launcher_puts_before_a_line_goes_with_it() -> None:
    (line,) = log_echo.lines(WHO, [Scalars(1, 1.0, {"loss": 0.5})])

    for prefix in ("[0]<stderr>:", "[1,0]<stderr>: ", "[1]<stdout>:"):
        assert log_echo.taken_apart(f"{prefix}{line}") == ("", line[len(MARK) :])


@pytest.mark.parametrize("line", ["the mark is ::bireme:: and then JSON", f'{MARK}{{"rank": 0, "att'])
def test_a_line_that_only_looks_like_one_is_shown(line: str) -> None:
    assert log_echo.taken_apart(line) == (line, "")


def test_one_record_is_never_longer_than_a_line() -> None:
    given: list[Record] = [
        Scalars(1, 1.0, {f"name-{number}": 0.123456789 for number in range(1000)}),
        Text(1, 1.0, "sample", "\N{SNOWMAN}" * 9000),
    ]

    lines = list(log_echo.lines(WHO, given))

    assert max(map(len, lines)) < 2 * log_echo.LONGEST_LINE
    merged: dict[str, float] = {}
    for one in read_again(lines):
        merged |= one.values if isinstance(one, Scalars) else {}
    assert given[0] == Scalars(1, 1.0, merged)


def test_what_a_program_had_begun_to_print_stays_its_own() -> None:
    (line,) = log_echo.lines(WHO, [Scalars(1, 1.0, {"loss": 0.5})])

    own, echoed = log_echo.taken_apart(f"50% |#####     |{line}")

    assert own == "50% |#####     |"
    assert log_echo.read(echoed) == (WHO, [Scalars(1, 1.0, {"loss": 0.5})])
    assert log_echo.taken_apart("loss: 0.5") == ("loss: 0.5", "")


@given(
    st.text() | st.sampled_from(["[]", "{}", "1", '{"rank": 0}', '{"rank": 0, "attempt": 0, "start": []}'])
)
def test_whatever_follows_a_mark_does_no_harm(text: str) -> None:
    assert log_echo.read(log_echo.taken_apart(f"{MARK}{text}")[1]) is None
    assert log_echo.read(text) is None
