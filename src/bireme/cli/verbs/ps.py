"""`bireme ps`: lists jobs."""

from __future__ import annotations

import time

import click

from bireme.cli.invocation import as_json, opened, print_json, print_lines, say, say_shortage, table_width
from bireme.cli.render import render_jobs, render_machine
from bireme.sdk.local import warm_interpreters
from bireme.sdk.views import JobList, WarmState

LAST = 5
"""Jobs that have ended and are listed without being asked for."""


@click.command("ps", short_help="List the jobs that are active, and the last ones that have ended.")
@click.option("-a", "--all", "every", is_flag=True, help="All jobs, however long ago they ended.")
@click.option("--warm", "only_warm", is_flag=True, help="List the warm interpreters instead, each in a line.")
@as_json
def command(every: bool, only_warm: bool, as_json: bool) -> None:
    """Lists the jobs that have not ended and the last five that have, the newest first.

    Each with how far it is and why it waits or failed; those in clusters too.
    """
    client = opened()
    if only_warm and not as_json:
        warm = warm_interpreters.zygotes(client.home)
        print_lines(render_machine.warm_table(warm, time.time(), table_width()))
        for zygote in warm:
            if zygote.state is WarmState.STOPPED:
                pid = zygote.pid
                say(f"{pid} was stopped by a signal and serves no run; `kill -CONT {pid}` continues it")
        say("end them with `bireme doctor --end-warm`" if warm else "no interpreter is warm")
        return
    found, more = (client.jobs(all=True), 0) if every else client.places.recent(LAST)
    jobs = JobList(
        jobs=found, warm=warm_interpreters.zygotes(client.home), unreached=client.unreached, more=more
    )
    say_shortage(client)
    if as_json:
        print_json(jobs)
        return
    print_lines(render_jobs.listed(jobs, time.time(), table_width()))
    for sentence in jobs.unreached:
        say(sentence)
    if more:
        have = "has" if more == 1 else "have"
        say(f"{more} more {have} ended: bireme ps --all; to delete what they left: bireme rm --ended")
    if not jobs.jobs:
        say("there are no jobs; start one: bireme run train.py")
