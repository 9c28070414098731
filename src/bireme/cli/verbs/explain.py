"""`bireme explain`: says what an error code means."""

from __future__ import annotations

import textwrap

import click

from bireme import errors
from bireme.cli.terminal import columns


@click.command("explain", short_help="Explain an error code.")
@click.argument(
    "code",
    required=False,
    shell_complete=lambda ctx, param, typed: [code for code in errors.codes() if code.startswith(typed)],
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead, as docs/cli.md describes it.")
def command(code: str | None, as_json: bool) -> None:
    """Explains an error CODE or an exit status; without one, lists them all. Needs no network."""
    found = [errors.by_code(each) for each in errors.codes()]
    if code is not None and code.isdecimal():
        found = [error for error in found if error.exit_status == int(code)]
        if not found:
            raise errors.BadInput(f"no error ends with status {code}", hint="`bireme explain` lists them")
    elif code is not None:
        found = [errors.by_code(code)]
    if as_json:
        from bireme.cli.invocation import print_json  # here, because a person is answered without them
        from bireme.sdk.views import ErrorList, ErrorView

        views = [
            ErrorView(code=error.code, exit_status=error.exit_status, explanation=error.explanation)
            for error in found
        ]
        print_json(ErrorList(errors=tuple(views)))
        return
    for error in found:
        if code is None:
            print(f"{error.code:<14} {error.exit_status:>3}")
        else:
            print(f"{error.code} (exit status {error.exit_status})")
            print(textwrap.fill(error.explanation, min(columns(), 100)))
