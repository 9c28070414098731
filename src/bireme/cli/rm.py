"""`bireme rm`: end jobs and delete what they left."""

from __future__ import annotations

import click

from bireme import errors
from bireme.cli.opening import names, opened, say
from bireme.cli.terminal import this_terminal


@click.command("rm", short_help="End jobs and delete what they left.")
@names
@click.option("-y", "--yes", is_flag=True, help="Do not ask before a job that has not ended is ended.")
def command(names: tuple[str, ...], yes: bool) -> None:
    """Ends jobs that have not ended, and deletes their logs, events and status; in a cluster, the job."""
    client = opened()
    for name in names:
        job = client.find(name)
        try:
            view = job.view()
        except errors.OurBug:  # it is damaged, and to be removed is all that is left for it
            job.remove()
            say(f"removed {name}")
            continue
        if view.is_over or yes or _agreed(view.id, str(view.phase)):
            job.remove()
            say(f"removed {view.id}")
        else:
            say(f"{view.id} is left as it is")


def _agreed(id: str, phase: str) -> bool:
    if not this_terminal().stdin:
        raise errors.BadInput(
            f"{id} has not ended ({phase})", hint=f"to end and delete it: bireme rm --yes {id}"
        )
    return click.confirm(f"{id} is {phase}. End it and delete what it left?", err=True)
