"""Reads the values of options: pairs, the words of a command, and times (`2h30m`, `2026-11-15T10:00`)."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence

from bireme import errors
from bireme.model import durations


def environment(written: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE`, or `NAME` for the value that it has here; the last one of a name wins."""
    found = {}
    for word in written:
        if word and "=" not in word:
            if word not in os.environ:
                raise errors.BadInput(
                    f"--env {word}: {word} is not set here",
                    hint=f"--env {word}=VALUE, or: export {word}=VALUE",
                )
            found[word] = os.environ[word]
        else:
            name, value = _pair("--env", word, "--env NAME=VALUE")
            found[name] = value
    return found


def maps(written: Sequence[str]) -> dict[str, str]:
    """`/path/of/the/image=./path/here`; what is here must be here."""
    found = {}
    for word in written:
        target, source = _pair("--map", word, "--map /opt/app=./src")
        if not os.path.isabs(target):
            raise errors.BadInput(
                f"--map {word}: {target} is not a path of an image, which begins with /",
                hint="the image's path comes first: --map /opt/app=./src",
            )
        if not os.path.exists(source):
            raise errors.BadInput(f"--map {word}: there is no {source}", hint="the path here comes second")
        found[target] = source
    return found


def volumes(written: Sequence[str]) -> dict[str, str]:
    """`claim=./folder`; the folder must be there, or a typing error would train on nothing."""
    found = {}
    for word in written:
        claim, folder = _pair("--volume", word, "--volume claim=./data")
        if not os.path.isdir(folder):
            raise errors.BadInput(f"--volume {word}: there is no folder {folder}", hint=f"mkdir -p {folder}")
        found[claim] = folder
    return found


def words(command: str | None) -> tuple[str, ...]:
    """The words of a command, as a shell would split them."""
    if command is None:
        return ()
    try:
        split = tuple(shlex.split(command))
    except ValueError as error:
        raise errors.BadInput(f"--command cannot be split into words: {error}") from error
    if not split:
        raise errors.BadInput("--command is empty", hint='--command "python train.py"')
    return split


def span(written: str, option: str) -> float:
    """Seconds of a duration; a bare number counts seconds."""
    try:
        return durations.seconds(written)
    except ValueError:
        raise errors.BadInput(
            f"{option} {written!r} is not a duration", hint="write it as 45s, 10m, 2h30m or 1d"
        ) from None


def moment(written: str, now: float, option: str) -> float:
    """The time that is meant by how long ago it was, or by its date; a date without a zone is local."""
    text = written.strip()
    if re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        from datetime import datetime  # here, because `run` reads no times

        try:
            return datetime.fromisoformat(text).timestamp()
        except (ValueError, OverflowError, OSError):
            pass
    try:
        return now - span(text, option)
    except errors.BadInput:
        raise errors.BadInput(
            f"{option} {written!r} is neither a duration nor a time",
            hint="write it as 45s, 10m, 2h30m, or as 2026-01-31T12:00",
        ) from None


def _pair(option: str, written: str, example: str) -> tuple[str, str]:
    name, mark, value = written.partition("=")
    if not mark or not name or (not value and option != "--env"):
        raise errors.BadInput(f"{option} {written!r} is not of the form {example.split()[1]}", hint=example)
    return name, value
