"""Tells our options from the script's, which come after `--`. Pure."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence

from bireme import errors
from bireme.core.scripts import command_lines
from bireme.core.scripts.interpreters import ENDINGS

_LAUNCHERS = ("torchrun",)
_COUNTS_OF_OTHERS = ("nproc-per-node", "num-processes", "n", "np")
"""How torchrun, accelerate and mpirun call the number of ranks."""
_SAVED = "job.yaml"
"""What a manifest is called that came through a pipe, and is there no more."""


def belongs_elsewhere(option: str, args: Sequence[str], ours: Mapping[str, bool]) -> errors.BadInput:
    """The error for an option that is not ours, with the command line that was meant.

    `ours` says of each option whether it takes a value.
    """
    word = option
    if not option.startswith("--"):  # of `-workers` click reports only `-w`
        word = next((word.partition("=")[0] for word in args if word.startswith(option)), option)
    if word.lstrip("-").replace("_", "-") in _COUNTS_OF_OTHERS:
        near = "--workers"
    elif f"-{word}" in ours:
        near = f"-{word}"
    else:
        import difflib  # here, because it is hardly ever needed

        near = next(iter(difflib.get_close_matches(word, ours, n=1, cutoff=0.8)), "")
    left, right = split(args, ours)
    script = next((word for word in left if word.endswith(ENDINGS)), "")
    hints: list[str] = []
    if near:
        at = args.index("--") if "--" in args else len(args)
        meant = [near + arg[len(word) :] if arg.partition("=")[0] == word else arg for arg in args[:at]]
        own, its = split([*meant, *args[at:]], ours)
        command = shlex.join(["bireme", "run", *own, *(["--", *its] if its else ())])
        hints.append(f"did you mean {near}? {command}")
    elif not script:
        hints.append("`bireme run --help` lists its options")
    if script:
        command = shlex.join(["bireme", "run", *left, "--", *right])
        hints.append(
            f"an option of {script} itself comes after --: {command}" if near else f"write: {command}"
        )
    after = "" if near or not script else f"; an option of {script} comes after --"
    return errors.BadInput(f"bireme run has no option {word}{after}", hint="\n".join(hints))


def without_launcher(args: Sequence[str], ours: Mapping[str, bool]) -> errors.BadInput | None:
    """The error for `bireme run python train.py`, with the command line that is meant."""
    at = args.index("--") if "--" in args else len(args)
    options = _options(args[:at], ours)
    first = next((index for index, option in enumerate(options) if not option[0].startswith("-")), None)
    if first is None:
        return None
    launcher = options[first][0]
    if os.path.basename(launcher) not in _LAUNCHERS and not command_lines.is_python(launcher):
        return None
    rest = options[first + 1 :]
    workers = _workers(rest) if launcher == "torchrun" else ()
    # Its own options stand between it and the script.
    while rest and rest[0][0].startswith("-") and rest[0][0] not in ours:
        rest = rest[1:]
    words = [word for option in (*options[:first], *rest, workers) for word in option]
    command = shlex.join(["bireme", "run", *words, *args[at:]])
    return errors.BadInput(
        f"bireme run starts a script's interpreter itself, and {launcher} is no script",
        hint=f"leave out {launcher}: {command}",
    )


def _workers(options: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The number of ranks that torchrun was to start."""
    words = [word for option in options for word in option]
    for index, word in enumerate(words):
        name, mark, value = word.partition("=")
        if name.lstrip("-").replace("_", "-") == "nproc-per-node":
            value = value if mark else next(iter(words[index + 1 :]), "")
            return ("--workers", value) if value.isdecimal() else ()
    return ()


def supplemented(
    args: Sequence[str], flags: Sequence[str], ours: Mapping[str, bool], by_hand: Sequence[str] = ()
) -> list[str]:
    """Lines with the command line of `bireme run` that has flags added; one given already is replaced.

    The values of variables are left out: they may be secrets, and a terminal's output may be kept. An
    option without one takes it from the shell, and is refused where that has none.
    """
    at = args.index("--") if "--" in args else len(args)
    added = errors.options(flags)
    replaced = {_key(option) for option in added}
    kept = [option for option in _options(args[:at], ours) if _key(option) not in replaced]
    is_piped = any(_is_piped(option) for option in kept)
    words = [word for option in (*map(_repeated, kept), *added) for word in option]
    first = [*([f"save the manifest as {_SAVED}"] if is_piped else ()), *by_hand]
    command = shlex.join(["bireme", "run", *words, *args[at:]])
    return [*([f"first: {'; '.join(first)}"] if first else ()), f"with all of it: {command}"]


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
    """The thing that an option supplies: of two options for one thing, one replaces the other."""
    name, *value = option
    return (name, *(word.partition("=")[0] for word in value))


def _is_piped(option: tuple[str, ...]) -> bool:
    return option[0] in ("-f", "--file") and option[1:] in (("-",), ("<stdin>",))


def _repeated(option: tuple[str, ...]) -> tuple[str, ...]:
    """An option as it is to be given once more."""
    if _is_piped(option):
        return (option[0], _SAVED)
    if option[0] != "--env" or len(option) < 2:
        return option
    return (option[0], option[1].partition("=")[0])


def split(args: Sequence[str], ours: Mapping[str, bool]) -> tuple[list[str], list[str]]:
    """Splits the words into those for Bireme and those for the script."""
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
            if not mark and words and not words[0].startswith("-") and not words[0].endswith(ENDINGS):
                right.append(words.pop(0))
        elif has_script:
            right.append(word)
        else:
            left.append(word)
            has_script = True
    return left, right
