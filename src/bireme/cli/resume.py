"""`bireme resume`: let stopped jobs go on."""

from __future__ import annotations

import click

from bireme.cli.opening import as_json, names, opened, print_json, say
from bireme.model.status import Phase
from bireme.sdk.views import JobViews


@click.command("resume", short_help="Let stopped jobs go on with their next attempt.")
@names
@as_json
def command(names: tuple[str, ...], as_json: bool) -> None:
    """Lets jobs that were stopped go on with their next attempt, which costs none of their retries."""
    client = opened()
    views = []
    for name in names:
        job = client.find(name)
        before, view = job.view(), job.resume()
        views.append(view)
        if before.phase is Phase.SUSPENDED:
            say(f"{view.id} goes on; follow it with `bireme logs -f {view.id}`")
        else:
            say(f"{view.id} was not stopped: it is {before.phase}")
    if as_json:
        print_json(JobViews(jobs=tuple(views)))
