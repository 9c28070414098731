"""`bireme checkpoints`: from where can a job go on."""

from __future__ import annotations

import time

import click

from bireme.cli import render_checkpoints
from bireme.cli.opening import as_json, one_name, opened, print_json, print_lines, say, table_width
from bireme.sdk import checkpoints


@click.command("checkpoints", short_help="List the checkpoints of a job.")
@one_name
@click.option("--verify", is_flag=True, help="Read them all and compare their checksums.")
@as_json
def command(name: str, verify: bool, as_json: bool) -> None:
    """Lists the checkpoints that a job's script saved with `run.save`, the oldest first.

    \b
    bireme checkpoints train-abcd
    bireme run train.py --from train-abcd
    bireme run train.py --from train-abcd@1200
    """
    found = checkpoints.of_job(opened().places, name, verified=verify)
    if as_json:
        print_json(found)
        return
    print_lines(render_checkpoints.listed(found, time.time(), table_width()))
    if not found.checkpoints:
        say(f"{found.job} has saved no checkpoint in {found.where}")
