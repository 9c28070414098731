"""Resolves an unquoted word of YAML to a number, a boolean, nothing, or just text.

The results are those of Kubernetes' own parser, so that a manifest means the same here. It follows YAML
1.1 for booleans (`yes`, `off`, `n`) and octal numbers (`0755`), and leaves dates and `1:30` as text.
"""

from __future__ import annotations

import math
import re

Scalar = str | int | float | bool | None

MERGE_KEY = "<<"

_WORDS: dict[str, bool | float | None] = {
    spelling: value
    for word, value in (
        ("y", True),
        ("yes", True),
        ("true", True),
        ("on", True),
        ("n", False),
        ("no", False),
        ("false", False),
        ("off", False),
        ("null", None),
        (".inf", math.inf),
        ("+.inf", math.inf),
        ("-.inf", -math.inf),
        (".nan", math.nan),
    )
    for spelling in (word, word.capitalize(), word.upper())
} | {"": None, "~": None, ".Inf": math.inf, "+.Inf": math.inf, "-.Inf": -math.inf, ".NaN": math.nan}

_INTEGER = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)|0[oO]?(?P<octal>[0-7]+)|(?P<decimal>0|[1-9][0-9]*))"
)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BASES = {"hex": 16, "binary": 2, "octal": 8, "decimal": 10}
_NUMBER_STARTS = frozenset("+-.0123456789")

# Any number of 64 bits is shorter than this in any base, and turning very many digits into one takes time.
_MOST_CHARACTERS = 200


def resolve(text: str) -> Scalar:
    """Returns what an unquoted scalar means.

    A whole number that 64 bits cannot hold becomes a float, and what a float cannot hold stays text.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS or len(text) > _MOST_CHARACTERS:
        return text
    digits = text.replace("_", "")
    shape = _INTEGER.fullmatch(digits)
    if shape is not None and shape.lastgroup is not None:
        value = int(shape["sign"] + shape[shape.lastgroup], _BASES[shape.lastgroup])
        if -(2**63) <= value < 2**64:
            return value
    if _FLOAT.fullmatch(digits):
        number = float(digits)
        return number if math.isfinite(number) else text
    return text
