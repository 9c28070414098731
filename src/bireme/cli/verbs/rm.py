"""`bireme rm`: ends jobs and deletes what they left."""

from __future__ import annotations

import sys
import time

import click

from bireme import errors
from bireme.cli.invocation import complete_names, opened, say
from bireme.cli.terminal import this_terminal
from bireme.core.machine import retention
from bireme.core.machine.retention import Selection
from bireme.model import durations, quantities
from bireme.model.quantities import show_memory
from bireme.sdk.backends import BackendName
from bireme.sdk.client import Client, JobHandle
from bireme.sdk.local import prune


@click.command("rm", short_help="End jobs and delete what they left.")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_names)
@click.option("--ended", is_flag=True, help="All jobs of this machine that have ended.")
@click.option("--older", metavar="TIME", help="Of these, only what ended longer ago: 12h, 7d.")
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="Of these, all but the newest N.")
@click.option("--larger", metavar="SIZE", help="Of these, only what takes more on disk: 500Mi, 2Gi.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def command(
    names: tuple[str, ...], ended: bool, older: str | None, keep: int | None, larger: str | None, yes: bool
) -> None:
    """Ends jobs that have not ended, and deletes their logs, events and status; in a cluster, the job.

    \b
    bireme rm mnist
    bireme rm --ended
    bireme rm --ended --older 7d --keep 20
    """
    given = {"older": older, "keep": keep, "larger": larger}
    narrowed = [name for name, value in given.items() if value is not None]
    if ended and names:
        raise errors.BadInput(f"both --ended and {names[0]} are given", hint="give names, or --ended")
    if not ended and narrowed:
        raise errors.BadInput(
            f"--{narrowed[0]} is for --ended", hint=f"bireme rm --ended --{narrowed[0]} ..."
        )
    if not ended and not names:
        raise errors.BadInput(
            "no job is named", hint="bireme rm NAME, or bireme rm --ended for all that ended"
        )
    client = opened()
    if ended:
        _remove_ended(client, older, keep, larger, yes)
        return
    failed: list[errors.BiremeError] = []
    for name in dict.fromkeys(names):
        try:
            _remove(client, name, yes)
        except errors.BiremeError as error:  # what is wrong with one keeps none of the others
            say(f"bireme: {error}")
            failed.append(error)
    if failed:
        sys.exit(failed[0].exit_status)


def _remove(client: Client, name: str, yes: bool) -> None:
    # What begins so could be another job than its user thinks of: it is taken only if its user can be asked.
    is_exact = yes or not this_terminal().stdin
    job = JobHandle(client.places.named(name)) if is_exact else client.find(name)
    try:
        view = job.view()
    except errors.OurBug:  # it is damaged, and to be removed is all that is left for it
        client.remove(name)
        say(f"removed {name}")
        return
    question = ""
    if not view.is_over:
        question = f"{view.id} is {view.phase}. End it and delete what it left?"
    elif _plain(name) != _plain(job.key):  # it was named by its beginning only
        question = f"{name} means {view.id} ({view.phase}). Delete what it left?"
    if question and not yes:
        if not this_terminal().stdin:
            fact = question.partition(". ")[0]
            raise errors.BadInput(fact, hint=f"to delete it: bireme rm --yes {view.id}")
        if not click.confirm(question, err=True):
            say(f"{view.id} is left as it is")
            return
    job.remove()
    say(f"removed {view.id}")


def _plain(name: str) -> str:
    """A job's own name, without its kind or the number of a run."""
    return name.rpartition("/")[2].partition("#")[0]


def _remove_ended(client: Client, older: str | None, keep: int | None, larger: str | None, yes: bool) -> None:
    try:
        age = None if older is None else durations.with_unit(older)
    except ValueError as error:
        raise errors.BadInput(f"--older {error}") from error
    try:
        size = None if larger is None else quantities.size(larger)
    except ValueError as error:
        raise errors.BadInput(f"--larger {error}", hint="write it as 500Mi or 2Gi") from error
    if client.places.backend is BackendName.KUBERNETES:
        raise errors.BadInput(
            "--ended is for this machine: jobs of a cluster may be others'",
            hint="add --on local, or set ttlSecondsAfterFinished in a job's runPolicy",
        )
    every = prune.ended(client.home)
    found = retention.selected(every, Selection(age, keep, size), time.time())
    if not found:
        say(
            "no job has ended" if not every else f"none of {prune.summed(every)} is meant; nothing is removed"
        )
        return
    if not yes:
        with_checkpoints = [run for run in found if run.has_checkpoints]
        taken = show_memory(sum(run.size for run in with_checkpoints))
        also = f"; {len(with_checkpoints)} with checkpoints ({taken})" if with_checkpoints else ""
        fact = f"{prune.summed(found)}{also}"
        if not this_terminal().stdin:
            raise errors.BadInput(f"{fact} would be deleted", hint="to delete them: bireme rm --ended --yes")
        if not click.confirm(f"{fact}. Delete what they left?", err=True):
            say("nothing is removed")
            return
    done = prune.removed(client.home, found)
    say(f"removed {prune.summed(done)}")
