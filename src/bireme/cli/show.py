"""`bireme show`: what is there to know about a job."""

from __future__ import annotations

import time

import click

from bireme.cli import render_jobs
from bireme.cli.opening import as_json, one_name, opened, print_json, print_lines, say_shortage


@click.command("show", short_help="Show a job: replicas, conditions, events, why it waits or failed.")
@one_name
@as_json
def command(name: str, as_json: bool) -> None:
    """Shows a job: what it runs, its replicas, conditions, events, and why it waits or failed."""
    client = opened()
    view = client.job(name)
    say_shortage(client)
    if as_json:
        print_json(view)
    else:
        print_lines(render_jobs.shown(view, time.time()))
