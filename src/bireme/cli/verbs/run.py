"""`bireme run`: starts a script or manifests, and follows them."""

from __future__ import annotations

import gc
import os
from typing import Any

import click

from bireme import errors
from bireme.cli import backend_options, script_options
from bireme.cli.backend_options import as_json
from bireme.runner import standby

_WORDS = "bireme.cli.verbs.run.words"
"""Where the words of the command line are kept while it is carried out."""


class RunCommand(click.Command):
    """Tells the user where the options of a script go."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = [*backend_options.chosen().words, *args]
        ours: dict[str, bool] = {}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Option):
                takes_value = not (parameter.is_flag or parameter.count)
                ours |= dict.fromkeys((*parameter.opts, *parameter.secondary_opts), takes_value)
        ours |= dict.fromkeys(backend_options.OPTIONS, True)
        ctx.meta[_WORDS] = (words, ours)
        mistaken = script_options.without_launcher(words, ours)
        if mistaken is not None:
            raise mistaken
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise script_options.belongs_elsewhere(error.option_name, words, ours) from None


@click.command(
    "run", cls=RunCommand, short_help="Run a script or a manifest, here or in a cluster, and follow it."
)
@click.argument("script", required=False)
@click.argument("args", nargs=-1, metavar="[-- ARGS...]")
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    metavar="FILE",
    help="A manifest: file, folder, or - for standard input.",
)
@click.option("-m", "--module", "is_module", is_flag=True, help="SCRIPT is a module, as python -m takes it.")
@click.option("--workers", type=int, metavar="N", help="How many ranks of the script.  [default: 1]")
@click.option("--gpu", type=int, metavar="N", help="GPUs of each rank.  [default: 0]")
@click.option("--cpu", metavar="AMOUNT", help="CPUs of each rank: 2, 500m.  [default: 1, not enforced]")
@click.option("--memory", metavar="AMOUNT", help="Memory of each rank: 4Gi.  [default: no limit]")
@click.option("--retries", type=int, metavar="N", help="Crashes that are tolerated.  [default: 3]")
@click.option("--name", metavar="NAME", help="Of the job.  [default: the script's, with four letters]")
@click.option("--env", multiple=True, metavar="NAME[=VALUE]", help="A variable for every rank.")
@click.option("--map", multiple=True, metavar="PATH=HERE", help="Supply a path of the image: /opt/app=./src.")
@click.option("--volume", multiple=True, metavar="CLAIM=FOLDER", help="Supply a persistent volume claim.")
@click.option("--command", metavar="WORDS", help="What the image's entrypoint would have run.")
@click.option("--python", metavar="PROGRAM", help="The interpreter.  [default: the active environment's]")
@click.option("--fit", is_flag=True, help="Shrink cpu, memory and GPUs of a manifest to this machine.")
@click.option("--cold", is_flag=True, help="Start every rank in a new interpreter, not from a warm one.")
@click.option("--detach", is_flag=True, help="Return at once; the job outlives the terminal.")
@click.option("--image", metavar="IMAGE", help="In a cluster: of every container.  [default: $BIREME_IMAGE]")
@click.option("--from", "continues", metavar="JOB[@STEP]", help="Continue from another run's checkpoint.")
@as_json
def command(**words: Any) -> None:  # Any: click passes each option with a type of its own
    """Runs SCRIPT with --workers ranks, or every job of a manifest (-f), and follows it.

    \b
    bireme run train.py --workers 2
    bireme run train.py --workers 2 -- --lr 0.1
    bireme run -f pytorchjob.yaml --map /opt/app=./src
    bireme run -f pytorchjob.yaml --on kubernetes

    Options of the script come after --. Ctrl-C stops following; pressed twice, it stops the job.
    """
    chosen, default = backend_options.chosen(), os.environ.get("BIREME_ON")
    # A script's own `--context` must not be taken for ours in silence.
    if chosen.names_a_cluster and not chosen.on and default != "kubernetes":
        raise errors.BadInput(
            "--context, --namespace and --kubeconfig are of a cluster, and the job is to run here",
            hint="add --on kubernetes; options of a script come after --",
        )
    if words["name"] == "":
        raise errors.BadInput("--name is empty", hint="leave it out, or name the job: --name mnist")
    if "kubernetes" not in (chosen.on, default):
        # Where `bireme.cli.__main__` was in doubt: the guard imports its modules while this process imports
        # those of the submission.
        standby.prepare()
    gc.disable()  # as in `main`: imports make no garbage
    from bireme.cli import run_start  # after the fork, or both processes would have to wait for it

    gc.enable()
    try:
        run_start.start(run_start.Asked(**words))
    except errors.BiremeError as error:
        if error.flags:
            line, ours = click.get_current_context().meta[_WORDS]
            error.hint = "\n".join(script_options.supplemented(line, error.flags, ours, error.by_hand))
        raise
