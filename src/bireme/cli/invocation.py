"""Begins a verb: makes its client, and restarts runners that died."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import click
import msgspec

from bireme import errors
from bireme.cli import backend_options
from bireme.cli.backend_options import as_json as as_json
from bireme.cli.render import text
from bireme.cli.terminal import columns, this_terminal
from bireme.model.status import Phase
from bireme.sdk.backends import BackendName
from bireme.sdk.client import Client


def opened() -> Client:
    """A client of the place that is chosen; says which jobs it found without a runner, and carried on."""
    client = backend_options.chosen().client()
    for id in client.revive():
        say(f"resumed {id}: its runner had died")
    return client


def say_shortage(client: Client) -> None:
    """Tells, with what is shown, that it may be old."""
    if client.shortage:
        say(client.shortage)


def say(words: str) -> None:
    """Tells the user something that is not data."""
    print(text.safe(words), file=sys.stderr, flush=True)


def print_lines(lines: list[str]) -> None:
    sys.stdout.write(text.safe("".join(f"{line}\n" for line in lines)))
    sys.stdout.flush()


def print_json(value: object) -> None:
    """Prints a value of a declared type."""
    formatted = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    sys.stdout.write(f"{text.safe_json(formatted)}\n")
    sys.stdout.flush()


def table_width() -> int | None:
    """The width that a table may have: a pipe gets all of it."""
    return columns() if this_terminal().stdout else None


def complete_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The names that a shell may offer; a shell must never see an error of ours."""
    try:
        return [name for name in Client().places.names() if name.startswith(incomplete)]
    except Exception:
        return []


class Default(NamedTuple):
    """The job that a verb takes where none is named."""

    words: str
    is_wanted: Callable[[Phase], bool]


NEWEST = Default("job", lambda phase: True)
ACTIVE = Default("active job", lambda phase: not phase.is_at_rest)
RESUMABLE = Default("stopped or failed job", lambda phase: phase in (Phase.SUSPENDED, Phase.FAILED))


def meant(client: Client, name: str | None, default: Default = NEWEST) -> str:
    """The name that was given, or that of the newest job, which is said."""
    if name is not None:
        return name
    found = client.places.newest(default.is_wanted)
    if found is None:
        raise _nobody(default)
    say(f"newest {default.words}: {found.id}")
    return found.key


def own_meant(client: Client, names: tuple[str, ...], default: Default, verb: str) -> tuple[str, ...]:
    """The names that were given, or that of the user's newest job; another user's is asked about."""
    if names:
        return names
    found = client.places.newest_own(default.is_wanted)
    if found is not None:
        say(f"newest {default.words}: {found.id}")
        return (found.key,)
    is_asked = client.places.backend is BackendName.KUBERNETES
    theirs = client.places.newest(default.is_wanted) if is_asked else None
    if theirs is None:
        raise _nobody(default)
    fact = f"no {default.words} was started from here; the newest of the namespace is {theirs.id}"
    if not this_terminal().stdin:
        words = " ".join(["bireme", verb, theirs.id, *backend_options.chosen().words])
        raise errors.BadInput(fact, hint=f"if it is meant, name it: {words}")
    if click.confirm(f"{fact}. {verb.capitalize()} it?", err=True):
        return (theirs.key,)
    say(f"{theirs.id} is left as it is")
    return ()


def _nobody(default: Default) -> errors.BadInput:
    return errors.BadInput(
        f"no job is named, and there is no {default.words}", hint="`bireme ps --all` lists the jobs"
    )


def all_meant(client: Client, names: tuple[str, ...], default: Default = NEWEST) -> tuple[str, ...]:
    return names or (meant(client, None, default),)


names = click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_names)
required_name = click.argument("name", metavar="NAME", shell_complete=complete_names)
one_name = click.argument("name", required=False, metavar="[NAME]", shell_complete=complete_names)
