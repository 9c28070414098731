"""`bireme tensorboard`: shows in TensorBoard what a job reported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import click

from bireme.cli.invocation import meant, one_name, opened, print_lines, say
from bireme.runs.metrics.tensorboard import TensorboardWriter
from bireme.sdk import tensorboards
from bireme.sdk.tensorboards import Curves

_EVERY = 1.0
_PATIENCE = 5.0


@click.command("tensorboard", short_help="Show in TensorBoard what a job reported.")
@one_name
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("--logdir-only", is_flag=True, help="Only write the event files, and print their folder.")
def command(name: str | None, args: tuple[str, ...], logdir_only: bool) -> None:
    """Writes event files of what a job reported, and starts TensorBoard on them.

    Without a NAME, the newest job. They are kept current until TensorBoard ends. Its own options come
    after `--`. It is looked for beside the job's interpreter, then on PATH.
    """
    client = opened()
    if name is not None and name.startswith("-"):
        args, name = (name, *args), None  # the first of its own options
    found = client.places.find(meant(client, name))
    program = "" if logdir_only else tensorboards.program(found.python(os.environ), os.environ)
    curves = found.curves()
    board = curves.board()
    try:
        board.refresh()
        if curves.is_full():
            say(f"{found.id} reports more ranks or names than can be shown; only the first are")
        if logdir_only:
            print_lines([str(board.folder)])
            return
        if board.is_empty():
            say(f"{found.id} has reported nothing yet; what comes will be shown")
        status, is_there = _served(curves, board, [program, "--logdir", str(board.folder), *args])
        if not is_there:
            say(f"{found.id} was removed")
        sys.exit(status)
    finally:
        board.close()
        curves.close()


def _served(curves: Curves, board: TensorboardWriter, words: list[str]) -> tuple[int, bool]:
    """Runs TensorBoard and keeps its files current; returns its exit status, and whether the job is there."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # it raises KeyboardInterrupt
    with subprocess.Popen(words) as shown:
        try:
            while curves.exists():
                try:
                    return shown.wait(_EVERY), True
                except subprocess.TimeoutExpired:
                    board.refresh()
            return 0, False
        except KeyboardInterrupt:
            return 0, True
        finally:
            # A Ctrl-C has reached it too; a signal that ended only us has not.
            try:
                shown.terminate()
                shown.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                shown.kill()
