"""Reads what a user has set for good: variables, and the file config.toml in the home."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from bireme import errors
from bireme.core.machine.retention import Limits
from bireme.model import durations, quantities

CONFIG = "config.toml"
EXAMPLES = {"image": '"python:3.11"', "keep_age": '"30d"', "keep_runs": "200", "keep_size": '"20Gi"'}
NAMES = tuple(EXAMPLES)

_Limit = TypeVar("_Limit", int, float)


def given(home: Path, environ: Mapping[str, str], name: str) -> tuple[str, str]:
    """What a setting is, and where it stands: a variable comes before the file. Both empty if nowhere."""
    variable = f"BIREME_{name.upper()}"
    if environ.get(variable):
        return environ[variable], variable
    path = home / CONFIG
    found = read(path).get(name, "")
    return found, f"{name} in {path}" if found else ""


def read(path: Path) -> dict[str, str]:
    """The settings of a file; none if there is no such file."""
    try:
        text = path.read_text()
        import tomllib  # here, because most homes have no such file

        content = tomllib.loads(text)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise errors.BadInput(f"it cannot be read: {error}", where=str(path)) from error
    unknown = sorted(set(content) - set(NAMES))
    if unknown:
        known = ", ".join(NAMES)
        raise errors.BadInput(f"unknown setting {unknown[0]!r}", where=str(path), hint=f"it knows: {known}")
    for name, value in content.items():
        is_number = isinstance(value, int) and not isinstance(value, bool) and name == "keep_runs"
        if not isinstance(value, str) and not is_number:
            raise errors.BadInput(f"{name} is not a text", where=str(path), hint=f"{name} = {EXAMPLES[name]}")
    return {name: str(value) for name, value in content.items()}


def limits(home: Path, environ: Mapping[str, str]) -> Limits:
    """The limits on what is kept of ended jobs; without a setting everything is kept."""
    return Limits(
        age=_limit(home, environ, "keep_age", durations.with_unit),
        runs=_limit(home, environ, "keep_runs", _count),
        size=_limit(home, environ, "keep_size", quantities.size),
    )


def _limit(home: Path, environ: Mapping[str, str], name: str, read: Callable[[str], _Limit]) -> _Limit | None:
    written, place = given(home, environ, name)
    try:
        return read(written) if written else None
    except ValueError as error:
        example = EXAMPLES[name].strip('"')
        raise errors.BadInput(str(error), where=place, hint=f"for example {name} {example}") from error


def _count(written: str) -> int:
    if not written.isdecimal() or len(written) > 9:
        raise ValueError(f"{written!r} is not a number of runs")
    return int(written)
