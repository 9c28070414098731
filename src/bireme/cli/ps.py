"""`bireme ps`: which jobs are there."""

from __future__ import annotations

import time

import click

from bireme.cli import render_jobs, render_warm
from bireme.cli.opening import as_json, opened, print_json, print_lines, say, say_shortage, table_width
from bireme.sdk import warm
from bireme.sdk.views import JobList, WarmState, WarmView


@click.command("ps", short_help="List the jobs that have not ended.")
@click.option("-a", "--all", "every", is_flag=True, help="Also those that have ended.")
@click.option("--warm", "only_warm", is_flag=True, help="List the warm interpreters instead, each in a line.")
@as_json
def command(every: bool, only_warm: bool, as_json: bool) -> None:
    """Lists the jobs that have not ended, here and in clusters, the newest first, and why they wait."""
    client = opened()
    if only_warm and not as_json:
        _list_warm(warm.zygotes(client.home))
        return
    found = client.jobs(all=every)
    jobs = JobList(jobs=found, warm=warm.zygotes(client.home), unreached=client.unreached)
    say_shortage(client)
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


def _list_warm(found: tuple[WarmView, ...]) -> None:
    print_lines(render_warm.listed(found, time.time(), table_width()))
    for one in found:
        if one.state is WarmState.STOPPED:
            say(f"{one.pid} was stopped by a signal and serves nobody; `kill -CONT {one.pid}` continues it")
    say("end them with `bireme doctor --end-warm`" if found else "no interpreter is warm")
