"""Whose option is it: ours, or the script's, which come after `--`. Pure."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Mapping, Sequence

from bireme import errors


def belongs_elsewhere(option: str, args: Sequence[str], ours: Mapping[str, bool]) -> errors.BadInput:
    """The error for an option that is not ours, with the command line that passes it to the script.

    `ours` says of each option whether it takes a value.
    """
    near = next(iter(difflib.get_close_matches(option, ours, n=1, cutoff=0.8)), "")
    left, right = split(args, ours)
    script = next((word for word in left if word.endswith(".py")), "")
    guess = f" (did you mean {near}?)" if near else ""
    if not script:
        return errors.BadInput(
            f"bireme run has no option {option}{guess}", hint="`bireme run --help` lists its options"
        )
    command = shlex.join(["bireme", "run", *left, "--", *right])
    return errors.BadInput(
        f"bireme run has no option {option}{guess}; an option of {script} comes after --",
        hint=f"write: {command}",
    )


def supplemented(args: Sequence[str], flags: Sequence[str], ours: Mapping[str, bool]) -> str:
    """The command line of `bireme run` with flags added; one that is given already is replaced.

    The values of variables are left out: they may be secrets, and a terminal's output may be kept.
    """
    at = args.index("--") if "--" in args else len(args)
    added = errors.options(flags)
    replaced = {_key(one) for one in added}
    kept = [one for one in _options(args[:at], ours) if _key(one) not in replaced]
    words = [word for one in (*map(_without_value, kept), *added) for word in one]
    return shlex.join(["bireme", "run", *words, *args[at:]])


def _options(args: Sequence[str], ours: Mapping[str, bool]) -> list[tuple[str, ...]]:
    """Words by option; what is no option stands by itself."""
    found: list[tuple[str, ...]] = []
    words = list(args)
    while words:
        word = words.pop(0)
        name, mark, value = word.partition("=")
        if mark and name in ours:
            found.append((name, value))
        elif ours.get(word) and words:
            found.append((word, words.pop(0)))
        else:
            found.append((word,))
    return found


def _key(option: tuple[str, ...]) -> tuple[str, ...]:
    """What an option supplies: two that say the same of one thing cannot both hold."""
    name, *value = option
    return (name, *(one.partition("=")[0] for one in value))


def _without_value(option: tuple[str, ...]) -> tuple[str, ...]:
    if option[0] != "--env" or len(option) < 2:
        return option
    return (option[0], f"{option[1].partition('=')[0]}=VALUE")


def split(args: Sequence[str], ours: Mapping[str, bool]) -> tuple[list[str], list[str]]:
    """Which words are for Bireme, and which for the script."""
    left: list[str] = []
    right: list[str] = []
    words = list(args)
    has_script = False
    while words:
        word = words.pop(0)
        if word == "--":
            right += words
            break
        name, mark, _ = word.partition("=")
        if name in ours:
            left.append(word)
            if ours[name] and not mark and words:
                left.append(words.pop(0))
        elif word.startswith("-") and word != "-":
            right.append(word)
            if not mark and words and not words[0].startswith("-") and not words[0].endswith(".py"):
                right.append(words.pop(0))
        elif has_script:
            right.append(word)
        else:
            left.append(word)
            has_script = True
    return left, right
