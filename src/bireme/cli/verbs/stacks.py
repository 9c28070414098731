"""`bireme stacks`: prints where the Python code of each rank is now."""

from __future__ import annotations

import click

from bireme.cli.invocation import ACTIVE, as_json, meant, one_name, opened, print_json, print_lines
from bireme.cli.render import render_lines
from bireme.sdk.views import JobStacks


@click.command("stacks", short_help="Print where the Python code of each rank is now.")
@one_name
@click.option("--rank", type=click.IntRange(min=0), metavar="N", help="Only of this rank.")
@as_json
def command(name: str | None, rank: int | None, as_json: bool) -> None:
    """Prints the stack of each rank of a running job, without disturbing it: what does it wait for?

    Without a NAME, of the newest active job.
    """
    client = opened()
    found = JobStacks(ranks=client.find(meant(client, name, ACTIVE)).stacks(rank))
    if as_json:
        print_json(found)
    else:
        print_lines(render_lines.stack_lines(found))
