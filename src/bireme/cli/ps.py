"""`bireme ps`: which jobs are there."""

from __future__ import annotations

import time

import click

from bireme.cli import render_jobs
from bireme.cli.opening import as_json, opened, print_json, print_lines, say, table_width
from bireme.sdk import warm
from bireme.sdk.views import JobList


@click.command("ps", short_help="List the jobs that have not ended.")
@click.option("-a", "--all", "every", is_flag=True, help="Also those that have ended.")
@as_json
def command(every: bool, as_json: bool) -> None:
    """Lists the jobs that have not ended, here and in clusters, the newest first, and why they wait."""
    client = opened()
    found = client.jobs(all=every)
    jobs = JobList(jobs=found, warm=warm.zygotes(client.home), unreached=client.unreached)
    if as_json:
        print_json(jobs)
        return
    print_lines(render_jobs.listed(jobs, time.time(), table_width()))
    for sentence in jobs.unreached:
        say(sentence)
    if not jobs.jobs:
        say(
            "there are no jobs"
            if every
            else "no job is active; `bireme ps --all` lists those that have ended"
        )
