"""`bireme scale`: changes how many ranks a script has, or replicas a role."""

from __future__ import annotations

import click

from bireme import errors
from bireme.cli.invocation import as_json, opened, print_json, required_name, say
from bireme.cli.render import render_jobs
from bireme.sdk import scale_requests


@click.command("scale", short_help="Change how many ranks a script has, or replicas a role.")
@required_name
@click.argument("counts", nargs=-1, required=True, metavar="COUNT | ROLE=COUNT...")
@as_json
def command(name: str, counts: tuple[str, ...], as_json: bool) -> None:
    """Changes how many ranks a script has, or how many replicas the roles of a manifest have.

    \b
    bireme scale train-abcd 4
    bireme scale mnist worker=4

    A gang, such as every script, starts again at its new size, from its last checkpoint.
    """
    wanted: dict[str, int] = {}
    for written in counts:
        role, mark, count = written.rpartition("=")
        if not count.isascii() or not count.isdecimal() or len(count) > 9 or (mark and not role):
            raise errors.BadInput(
                f"{written!r} is neither a number nor of the form ROLE=COUNT",
                hint="bireme scale train-abcd 4, or: bireme scale mnist worker=4",
            )
        wanted[role.lower() or scale_requests.ALL] = int(count)
    job = opened().find(name)
    before = job.view()
    view = job.scale(**wanted)
    for line in render_jobs.scaled(before, view):
        say(f"{view.id}: {line}")
    if as_json:
        print_json(view)
