"""`bireme checkpoints`: lists what a job can continue from, and exports its model."""

from __future__ import annotations

import time

import click

from bireme import errors
from bireme.cli.invocation import (
    as_json,
    complete_names,
    meant,
    opened,
    print_json,
    print_lines,
    say,
    table_width,
)
from bireme.cli.render import render_checkpoints
from bireme.sdk import checkpoint_names

EXPORT = "export"
_USAGE = "bireme checkpoints train-abcd, or bireme checkpoints export train-abcd@1200 model.pt"


@click.command("checkpoints", short_help="List the checkpoints of a job, or export one.")
@click.argument(
    "words",
    nargs=-1,
    metavar="[NAME] | export NAME[@STEP] FILE",
    shell_complete=complete_names,
)
@click.option("--verify", is_flag=True, help="Read them all and compare their checksums.")
@click.option("--part", default="", metavar="NAME", help="What to export.  [default: model]")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@as_json
def command(words: tuple[str, ...], verify: bool, part: str, force: bool, as_json: bool) -> None:
    """Lists the checkpoints that a job's script saved with `run.save`, the oldest first, or exports one.

    Without a NAME, those of the newest job.

    \b
    bireme checkpoints train-abcd
    bireme checkpoints export train-abcd@1200 model.pt
    bireme run train.py --from train-abcd
    bireme run train.py --from train-abcd@1200
    """
    if words[:1] == (EXPORT,) and len(words) > 1:
        _refuse(verify, "--verify", "checksums are verified in any case")
        if len(words) != 3:
            raise errors.BadInput("an export needs a job and a file", hint=_USAGE)
        done = checkpoint_names.export(opened().places, words[1], words[2], part, force=force)
        if as_json:
            print_json(done)
            return
        for line in render_checkpoints.exported(done):
            say(line)
        return
    _refuse(bool(part), "--part", "bireme checkpoints export NAME FILE --part optimizer")
    _refuse(force, "--force", "bireme checkpoints export NAME FILE --force")
    if len(words) > 1:
        raise errors.BadInput(f"one job has its checkpoints listed, got {len(words)} names", hint=_USAGE)
    client = opened()
    name = meant(client, words[0] if words else None)
    found = checkpoint_names.of_job(client.places, name, verified=verify)
    if as_json:
        print_json(found)
        return
    print_lines(render_checkpoints.listed(found, time.time(), table_width()))
    if not found.checkpoints:
        say(f"{found.job} has saved no checkpoint in {found.where}")


def _refuse(given: bool, option: str, hint: str) -> None:
    if given:
        raise errors.BadInput(f"{option} has no meaning here", hint=hint)
