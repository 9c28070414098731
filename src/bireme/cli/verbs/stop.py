"""`bireme stop`: suspends jobs."""

from __future__ import annotations

import sys
import threading

import click

from bireme import errors
from bireme.cli.invocation import ACTIVE, as_json, names, opened, own_meant, print_json, say
from bireme.model.status import Phase
from bireme.sdk.views import JobView, JobViews

_SILENT = 3.0
"""Seconds after which a message says what is waited for."""


@click.command("stop", short_help="Suspend jobs; they can be resumed.")
@names
@as_json
def command(names: tuple[str, ...], as_json: bool) -> None:
    """Stops jobs (SIGTERM, then SIGKILL after their grace) and waits until they have stopped.

    Without a NAME, your newest active job. A stopped job keeps everything that it wrote;
    `bireme resume` resumes its next attempt.
    """
    client = opened()
    views, is_done = [], True
    for name in own_meant(client, names, ACTIVE, "stop"):
        job = client.find(name)
        before = job.view()
        waits = threading.Timer(_SILENT, say, [f"{job.id} is stopping; its ranks have time to save"])
        waits.daemon = True
        waits.start()
        try:
            view = job.stop()
        except KeyboardInterrupt:
            now = job.view()
            fact = f"interrupted; {now.id} is {now.phase}"
            if now.stopping:  # a user who does not wait for its end has to know that it comes
                fact = (
                    f"interrupted; {now.id} is stopping, and will stop: `bireme resume {now.id}` undoes that"
                )
            raise errors.Interrupted(fact) from None
        finally:
            waits.cancel()
        views.append(view)
        is_done &= view.is_over or _is_stopped(view)
        say(_outcome(before, view))
    if as_json:
        print_json(JobViews(jobs=tuple(views)))
    if not is_done:
        sys.exit(1)


def _outcome(before: JobView, view: JobView) -> str:
    if view.is_over:
        when = "had ended already" if before.is_over else "ended before it could be stopped"
        return f"{view.id} {when}: {view.phase}"
    if not _is_stopped(view):
        return f"{view.id} is not stopped: it was resumed meanwhile"
    if before.phase is Phase.SUSPENDED and not before.stopping:
        return f"{view.id} was stopped already; `bireme resume {view.id}` resumes it"
    return f"stopped {view.id}; `bireme resume {view.id}` resumes it"


def _is_stopped(view: JobView) -> bool:
    return view.phase is Phase.SUSPENDED and not view.resuming
