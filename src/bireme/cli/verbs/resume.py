"""`bireme resume`: resumes jobs that were stopped, or that failed."""

from __future__ import annotations

import click

from bireme.cli.invocation import RESUMABLE, as_json, names, opened, own_meant, print_json, say
from bireme.model.status import Phase
from bireme.sdk.views import JobViews


@click.command("resume", short_help="Resume jobs that were stopped, or that failed.")
@names
@as_json
def command(names: tuple[str, ...], as_json: bool) -> None:
    """Resumes jobs that were stopped, or that failed, with their next attempt.

    It costs none of their retries; of a job that failed, all retries are there again. The script
    continues from its last checkpoint, if it saves any with `run.save` and restores them.

    Without a NAME, your newest job that was stopped or has failed.
    """
    client = opened()
    views = []
    for name in own_meant(client, names, RESUMABLE, "resume"):
        job = client.find(name)
        before, view = job.view(), job.resume()
        views.append(view)
        if before.stopping:
            say(f"{view.id} was being stopped; it continues instead")
        elif before.phase in (Phase.SUSPENDED, Phase.FAILED):
            since = f" from step {view.checkpoint.step}" if view.checkpoint else ""
            say(f"{view.id} resumes{since}; follow it with `bireme logs -f {view.id}`")
        else:
            say(f"{view.id} was not stopped: it is {before.phase}")
    if as_json:
        print_json(JobViews(jobs=tuple(views)))
