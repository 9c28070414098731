"""How does a verb begin: with a client, after it has carried on what was left dead."""

from __future__ import annotations

import sys

import click
import msgspec

from bireme.cli import text, where
from bireme.cli.terminal import columns, this_terminal
from bireme.sdk.client import Client

as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON instead, as docs/cli.md describes it."
)


def opened() -> Client:
    """A client of the place that is chosen; says which jobs it found without a runner, and carried on."""
    client = where.chosen().client()
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
    """How wide a table may be: a pipe gets all of it."""
    return columns() if this_terminal().stdout else None


def complete_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The names that a shell may offer; a shell must never see an error of ours."""
    try:
        return [name for name in Client().places.names() if name.startswith(incomplete)]
    except Exception:
        return []


names = click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_names)
one_name = click.argument("name", metavar="NAME", shell_complete=complete_names)
