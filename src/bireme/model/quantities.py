"""Reads Kubernetes resource quantities such as `500m` or `4Gi` as exact numbers."""

from __future__ import annotations

import math
import re
from fractions import Fraction

Written = str | int | float
"""A quantity as a manifest may write it."""

LARGEST = 2**63 - 1
"""The largest number that Kubernetes can hold in a quantity."""

LEAST_MEMORY = 6 * 1024 * 1024
"""Bytes below which container runtimes refuse a limit, because nothing can be started in it."""

_MOST_GIBIBYTES = 64
"""The largest bare number that is taken for gibibytes with the unit left out, not for mebibytes."""

_SCALES = {
    "": Fraction(1),
    **{suffix: Fraction(1, 1000**power) for power, suffix in enumerate(("m", "u", "n"), 1)},
    **{suffix: Fraction(1000**power) for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    **{suffix: Fraction(1024**power) for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
}
_MEMORY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")

_SHAPE = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>.*))"
)

# Far beyond anything useful, and small enough that the arithmetic takes no time.
_MOST_CHARACTERS = 100
_MOST_EXPONENT = 100


def parse(written: Written) -> Fraction:
    """Returns the exact value, sign included; raises ValueError with a sentence for people.

    A caller that cannot use a negative quantity refuses it: the sign is kept here.
    """
    text = _as_text(written)
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        raise ValueError(f"{text!r} is not a quantity; write a number such as 2, 500m or 4Gi")
    value = Fraction(shape["number"]) * _scale(text, shape["exponent"], shape["suffix"] or "")
    return _within_reach(value, text)


def milli(written: Written) -> int:
    """Returns thousandths, as cpu is counted, rounded up (away from zero)."""
    return _rounded_up(_within_reach(parse(written) * 1000, written))


def whole(written: Written) -> int:
    """Returns whole units, as bytes and devices are counted, rounded up (away from zero)."""
    return _rounded_up(parse(written))


def too_little_memory(written: Written) -> str:
    """Returns a sentence if nothing can run within a limit of so much memory, else an empty text."""
    amount = whole(written)
    if not 0 < amount < LEAST_MEMORY:
        return ""
    return (
        f"{written} is {show_memory(amount)}, and no process can live in less than "
        f"{show_memory(LEAST_MEMORY)}; did you mean {_meant_memory(str(written))}?"
    )


def size(written: str) -> int:
    """Returns bytes where a slip deletes things: a small number without a unit is refused. ValueError."""
    amount = whole(written)
    if amount < 0:
        raise ValueError(f"{written!r} is less than nothing")
    shape = _SHAPE.fullmatch(written)
    suffix = shape["suffix"] if shape else ""
    # A number that is large counts bytes, as other tools print them.
    if 0 < amount < 1024 * 1024 and suffix not in ("k", "Ki"):
        what = f"is {show_memory(amount)}" if suffix else "has no unit"
        raise ValueError(f"{written!r} {what}, did you mean {_meant_memory(written)}?")
    return amount


def show_memory(number_of_bytes: int) -> str:
    """Returns a size for people, such as `3.5 GiB`, with at most three significant digits."""
    power = 0
    while abs(number_of_bytes) >= 1024 ** (power + 1) and power + 1 < len(_MEMORY_UNITS):
        power += 1
    return f"{_three_digits(Fraction(number_of_bytes, 1024**power))} {_MEMORY_UNITS[power]}"


def show_cpu(millicores: int) -> str:
    """Returns an amount of cpu for people, such as `0.5 cpu`, with at most three significant digits."""
    return f"{_three_digits(Fraction(millicores, 1000))} cpu"


def _meant_memory(text: str) -> str:
    """Guesses the amount whose unit was forgotten or mistaken: `4` for 4Gi, `400m` for 400Mi."""
    shape = _SHAPE.fullmatch(text)
    if shape is None or shape["exponent"] is not None:
        return "4Gi"
    number, suffix = shape["number"].lstrip("+"), shape["suffix"]
    is_small = Fraction(number) <= _MOST_GIBIBYTES
    return f"{number}Gi" if suffix in ("M", "Mi") or (not suffix and is_small) else f"{number}Mi"


def _as_text(written: Written) -> str:
    if isinstance(written, bool):
        raise ValueError(f"{str(written).lower()} is not a quantity; write a number such as 2, 500m or 4Gi")
    if isinstance(written, int) and abs(written) > LARGEST:  # before str, which refuses very long ones
        raise ValueError("the number is too large: a quantity is at most 2^63 - 1")
    if isinstance(written, float) and not math.isfinite(written):
        raise ValueError(f"{written} is not a quantity; write a number such as 2, 500m or 4Gi")
    # The shortest text of a float is what its author wrote: 0.1 is a tenth, not its binary neighbour.
    text = str(written)
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(
            f"a quantity of {len(text)} characters is too long; at most {_MOST_CHARACTERS} are read"
        )
    return text


def _scale(text: str, exponent: str | None, suffix: str) -> Fraction:
    if exponent is not None:
        power = int(exponent)
        if abs(power) > _MOST_EXPONENT:
            raise ValueError(
                f"the exponent of {text!r} is out of range; -{_MOST_EXPONENT} to {_MOST_EXPONENT} are read"
            )
        return Fraction(10) ** power
    if suffix in _SCALES:
        return _SCALES[suffix]
    known = ", ".join(each for each in _SCALES if each)
    advice = _advice(suffix)
    raise ValueError(f"{text!r} has the unknown suffix {suffix!r}; {advice or f'the suffixes are {known}'}")


def _advice(suffix: str) -> str:
    """Guesses which suffix was meant, for the ways in which people most often write one."""
    bare = suffix.strip().lower().removesuffix("bytes").removesuffix("b").removesuffix("i")
    if suffix.strip() in _SCALES:
        return "leave out the space"
    if bare == "k":
        return "write Ki for 1024 or k for 1000"
    if bare.upper() in ("M", "G", "T", "P", "E"):
        return f"write {bare.upper()}i for powers of 1024 or {bare.upper()} for powers of 1000"
    return "leave it out to count bytes" if suffix.strip().lower() in ("b", "bytes") else ""


def _within_reach(value: Fraction, written: Written) -> Fraction:
    if abs(value) > LARGEST:
        raise ValueError(f"{str(written)!r} is too large: a quantity is at most 2^63 - 1")
    return value


def _rounded_up(value: Fraction) -> int:
    # Away from zero, so that a negative quantity never looks like none at all.
    return math.ceil(value) if value >= 0 else math.floor(value)


def _three_digits(value: Fraction) -> str:
    """Writes a number with three significant digits and never with an exponent."""
    if value == 0:
        return "0"
    decimals = 2
    while abs(value) * 10**decimals < 100:
        decimals += 1
    while abs(value) * Fraction(10) ** decimals >= 1000:
        decimals -= 1
    rounded = round(value, decimals)
    if decimals <= 0:
        return str(int(rounded))
    return f"{float(rounded):.{decimals}f}".rstrip("0").rstrip(".")
