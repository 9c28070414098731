"""`bireme show`: shows everything about a job."""

from __future__ import annotations

import time

import click

from bireme.cli.invocation import (
    as_json,
    meant,
    one_name,
    opened,
    print_json,
    print_lines,
    say_shortage,
    table_width,
)
from bireme.cli.render import render_jobs


@click.command("show", short_help="Show a job: replicas, conditions, events, why it waits or failed.")
@one_name
@as_json
def command(name: str | None, as_json: bool) -> None:
    """Shows a job: what it runs, its replicas, conditions, events, and why it waits or failed.

    Without a NAME, the newest job.
    """
    client = opened()
    view = client.job(meant(client, name))
    say_shortage(client)
    if as_json:
        print_json(view)
    else:
        print_lines(render_jobs.shown(view, time.time(), table_width()))
