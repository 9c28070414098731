"""Quantities mean here what they mean in Kubernetes, exactly."""

from __future__ import annotations

import contextlib
import math
import time
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bireme.model import quantities

SUFFIXES: dict[str, Fraction | int] = {
    "": 1,
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "E": 10**18,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "Pi": 2**50,
    "Ei": 2**60,
}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("500m", Fraction(1, 2)),
        ("4Gi", 4 * 2**30),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1e+3", 1000),
        ("12e-1", Fraction(6, 5)),
        ("2E", 2 * 10**18),
        ("0.5", Fraction(1, 2)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("+3", 3),
        ("-1", -1),
        ("-0.5Ki", -512),
        ("100n", Fraction(1, 10**7)),
        ("100u", Fraction(1, 10**4)),
        ("0", 0),
        ("007", 7),
        (3, 3),
        (0.1, Fraction(1, 10)),
        (1e3, 1000),
        (2**63 - 1, 2**63 - 1),
    ],
)
def test_every_way_to_write_a_quantity(written: str | int | float, value: Fraction | int) -> None:
    assert quantities.parse(written) == value


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("", "not a quantity"),
        ("four", "not a quantity"),
        ("1\n", "not a quantity"),
        ("--1", "not a quantity"),
        (".", "not a quantity"),
        ("٣", "not a quantity"),
        ("4GB", "write Gi for powers of 1024 or G for powers of 1000"),
        ("4gb", "write Gi for powers of 1024 or G for powers of 1000"),
        ("4g", "write Gi"),
        ("4K", "write Ki for 1024 or k for 1000"),
        ("4 Gi", "leave out the space"),
        ("512B", "leave it out to count bytes"),
        ("512 bytes", "leave it out to count bytes"),
        ("1x", "the suffixes are m, u, n, k"),
        ("1e", "unknown suffix"),
        ("1e3Ki", "unknown suffix"),
        ("1e3.5", "unknown suffix"),
        ("10E", "too large"),
        ("8Ei", "too large"),
        (2**63, "too large"),
        (True, "true is not a quantity"),
        (math.inf, "not a quantity"),
        (math.nan, "not a quantity"),
        ("9" * 1000, "too long"),
    ],
)
def test_what_is_no_quantity_is_refused_with_a_sentence(written: str | int | float, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        quantities.parse(written)

    assert sentence in str(caught.value)


@pytest.mark.parametrize("written", ["1e999999999", "1e-999999999", "1E" + "9" * 90, "0e101"])
def test_absurd_exponents_are_refused_at_once(written: str) -> None:
    start = time.process_time()

    with pytest.raises(ValueError, match=r"exponent of .* is out of range"):
        quantities.parse(written)

    assert time.process_time() - start < 0.1


@pytest.mark.parametrize(
    ("written", "expected"),
    [("500m", 500), ("1", 1000), (2, 2000), (0.1, 100), ("1n", 1), ("0", 0), ("1.0001", 1001), ("-1n", -1)],
)
def test_cpu_is_counted_in_thousandths_rounded_up(written: str | int | float, expected: int) -> None:
    assert quantities.milli(written) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [("1Gi", 2**30), ("0.5", 1), ("1m", 1), (3, 3), (2.5, 3), ("0", 0), ("-1m", -1), ("1e3", 1000)],
)
def test_memory_and_devices_are_counted_whole_rounded_up(written: str | int | float, expected: int) -> None:
    assert quantities.whole(written) == expected


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(ValueError, match="too large"):
        quantities.parse(10**5000)


def test_thousandths_that_64_bits_cannot_hold_are_refused() -> None:
    with pytest.raises(ValueError, match="too large"):
        quantities.milli("9E")


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1020 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (3758096384, "3.5 GiB"),
        (10 * 2**20, "10 MiB"),
        (100 * 2**20, "100 MiB"),
        (1000 * 2**20, "1000 MiB"),
        (123456789, "118 MiB"),
        (2**40, "1 TiB"),
        (2**63, "8 EiB"),
        (2**80, "1050000 EiB"),
        (-1536, "-1.5 KiB"),
    ],
)
def test_memory_is_shown_with_its_unit(size: int, shown: str) -> None:
    assert quantities.show_memory(size) == shown


@pytest.mark.parametrize(
    ("millicores", "shown"),
    [
        (0, "0 cpu"),
        (1, "0.001 cpu"),
        (500, "0.5 cpu"),
        (1000, "1 cpu"),
        (1234, "1.23 cpu"),
        (64000, "64 cpu"),
    ],
)
def test_cpu_is_shown_in_cores(millicores: int, shown: str) -> None:
    assert quantities.show_cpu(millicores) == shown


@given(st.integers(-(10**6), 10**6), st.sampled_from(sorted(SUFFIXES)))
def test_a_suffix_multiplies(number: int, suffix: str) -> None:
    expected = Fraction(number) * Fraction(SUFFIXES[suffix])

    if abs(expected) < 2**63:
        assert quantities.parse(f"{number}{suffix}") == expected


@given(st.integers(0, 10**9), st.integers(-9, 9))
def test_an_exponent_shifts_the_decimal_point(number: int, exponent: int) -> None:
    assert quantities.parse(f"{number}e{exponent}") == number * Fraction(10) ** exponent


@given(st.floats(-9e18, 9e18).filter(lambda value: value == 0 or abs(value) > 1e-80))
def test_a_float_means_its_shortest_text(value: float) -> None:
    assert float(quantities.parse(value)) == value


@given(st.decimals(min_value=-(10**6), max_value=10**6, allow_nan=False, places=12))
def test_rounding_goes_up_by_less_than_one_and_never_to_zero(value: Decimal) -> None:
    exact = quantities.parse(f"{value:f}")

    whole = quantities.whole(f"{value:f}")

    assert 0 <= abs(whole) - abs(exact) < 1
    assert (whole > 0) == (exact > 0)
    assert (whole < 0) == (exact < 0)


@given(st.text())
def test_any_text_is_a_quantity_or_a_value_error(text: str) -> None:
    # Anything but ValueError fails the test by itself.
    with contextlib.suppress(ValueError):
        assert isinstance(quantities.parse(text), Fraction)


@given(st.integers(0, 2**70))
def test_shown_memory_has_three_significant_digits_and_is_near(size: int) -> None:
    number, unit = quantities.show_memory(size).split()

    power = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB").index(unit)
    digits = number.replace(".", "").strip("0")
    assert len(digits) <= 3
    assert "e" not in number
    assert abs(Fraction(number) * 1024**power - size) <= Fraction(size, 190)
