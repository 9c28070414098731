"""`bireme wait`: waits until jobs have ended."""

from __future__ import annotations

import sys
import time

import click

from bireme.cli import option_values
from bireme.cli.invocation import all_meant, as_json, names, opened, print_json, say
from bireme.cli.run_end import final_lines, status_of
from bireme.model.status import Phase
from bireme.sdk.views import JobViews


@click.command("wait", short_help="Wait until jobs have ended, and exit with their status.")
@names
@click.option("--timeout", metavar="TIME", help="Give up after so long (90s, 10m), with exit status 5.")
@as_json
def command(names: tuple[str, ...], timeout: str | None, as_json: bool) -> None:
    """Waits until the jobs have ended, and exits with 0 if all succeeded, else with 1.

    Without a NAME, for the newest job.
    """
    client = opened()
    limit = None if timeout is None else option_values.span(timeout, "--timeout")
    jobs = [client.find(name) for name in all_meant(client, names)]
    for job in jobs:
        if job.view().phase is Phase.SUSPENDED:
            say(f"{job.id} is suspended; `bireme resume {job.id}` resumes it")
    views = []
    for job in jobs:
        begin = time.monotonic()
        views.append(job.wait(limit))
        limit = None if limit is None else max(0.0, limit - (time.monotonic() - begin))
    if as_json:
        print_json(JobViews(jobs=tuple(views)))
    else:
        for view in views:
            for line in final_lines(view, named=True):
                say(line)
    sys.exit(status_of(views))
