"""`bireme stop`: put jobs aside."""

from __future__ import annotations

import click

from bireme.cli.opening import ACTIVE, as_json, names, opened, own_meant, print_json, say
from bireme.model.status import Phase
from bireme.sdk.views import JobViews


@click.command("stop", short_help="Put jobs aside; they can be resumed.")
@names
@as_json
def command(names: tuple[str, ...], as_json: bool) -> None:
    """Stops jobs (SIGTERM, then SIGKILL after their grace) and waits until they rest.

    Without a NAME, your newest active job. A stopped job keeps everything that it wrote;
    `bireme resume` goes on with its next attempt.
    """
    client = opened()
    views = []
    for name in own_meant(client, names, ACTIVE, "stop"):
        job = client.find(name)
        before, view = job.view(), job.stop()
        views.append(view)
        if before.is_over:
            say(f"{view.id} had ended already: {view.phase}")
        elif before.phase is Phase.SUSPENDED:
            say(f"{view.id} was stopped already; `bireme resume {view.id}` goes on with it")
        else:
            say(f"stopped {view.id}; `bireme resume {view.id}` goes on with it")
    if as_json:
        print_json(JobViews(jobs=tuple(views)))
