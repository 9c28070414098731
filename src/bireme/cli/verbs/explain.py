"""`bireme explain`: says what an error code means."""

from __future__ import annotations

import textwrap

import click

from bireme import errors
from bireme.cli.terminal import columns


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [code for code in errors.codes() if code.startswith(incomplete)]


@click.command("explain", short_help="Explain an error code.")
@click.argument("code", required=False, shell_complete=_complete)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead, as docs/cli.md describes it.")
def command(code: str | None, as_json: bool) -> None:
    """Explains an error CODE or an exit status; without one, lists them all. Needs no network."""
    found = [errors.by_code(each) for each in (errors.codes() if code is None else _codes(code))]
    if as_json:
        _print_json(found)
        return
    for each in found:
        if code is None:
            print(f"{each.code:<14} {each.exit_status:>3}")
        else:
            print(f"{each.code} (exit status {each.exit_status})")
            print(textwrap.fill(each.explanation, min(columns(), 100)))


def _codes(given: str) -> list[str]:
    """The codes that are meant: by name, or all that end with a status."""
    if not given.isdecimal():
        return [errors.by_code(given).code]
    ending = [code for code in errors.codes() if errors.by_code(code).exit_status == int(given)]
    if not ending:
        raise errors.BadInput(f"no error ends with status {given}", hint="`bireme explain` lists them")
    return ending


def _print_json(found: list[type[errors.BiremeError]]) -> None:
    from bireme.cli.invocation import print_json
    from bireme.sdk.views import ErrorList, ErrorView

    views = (
        ErrorView(code=each.code, exit_status=each.exit_status, explanation=each.explanation)
        for each in found
    )
    print_json(ErrorList(errors=tuple(views)))
