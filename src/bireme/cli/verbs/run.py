"""`bireme run`: start a script or manifests here, and follow them."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import click

from bireme import errors
from bireme.cli import backend_options, override_options, script_options, terminal
from bireme.cli.invocation import as_json, opened, print_json, say
from bireme.cli.run_end import conclude
from bireme.sdk.backends import VARIABLE, Backend
from bireme.sdk.client import Client, JobHandle
from bireme.sdk.submissions import RunOptions, Script, SubmissionBatch
from bireme.sdk.views import JobViews

_WORDS = "bireme.cli.verbs.run.words"
"""Where the words of the command line are kept while it is carried out."""


class RunCommand(click.Command):
    """Tells the user where the options of a script go."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = [*backend_options.chosen().words, *args]
        ours = self._ours(ctx)
        ctx.meta[_WORDS] = (words, ours)
        mistaken = script_options.without_launcher(words, ours)
        if mistaken is not None:
            raise mistaken
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise script_options.belongs_elsewhere(error.option_name, words, ours) from None

    def _ours(self, ctx: click.Context) -> dict[str, bool]:
        found: dict[str, bool] = {}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Option):
                takes_value = not (parameter.is_flag or parameter.count)
                found |= dict.fromkeys((*parameter.opts, *parameter.secondary_opts), takes_value)
        return found | dict.fromkeys(backend_options.OPTIONS, True)


@dataclass(frozen=True)
class Asked:
    """The words of the command line."""

    script: str | None
    args: tuple[str, ...]
    files: tuple[str, ...]
    is_module: bool
    workers: int | None
    gpu: int | None
    cpu: str | None
    memory: str | None
    retries: int | None
    name: str | None
    env: tuple[str, ...]
    map: tuple[str, ...]
    volume: tuple[str, ...]
    command: str | None
    python: str | None
    fit: bool
    cold: bool
    detach: bool
    image: str | None
    continues: str | None
    as_json: bool


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
@click.option("--retries", type=int, metavar="N", help="Crashes that are forgiven.  [default: 3]")
@click.option("--name", metavar="NAME", help="Of the job.  [default: the script's, with four letters]")
@click.option("--env", multiple=True, metavar="NAME[=VALUE]", help="A variable for every rank.")
@click.option("--map", multiple=True, metavar="PATH=HERE", help="Supply a path of the image: /opt/app=./src.")
@click.option("--volume", multiple=True, metavar="CLAIM=FOLDER", help="Supply a persistent volume claim.")
@click.option("--command", metavar="WORDS", help="What the image's entrypoint would have run.")
@click.option("--python", metavar="PROGRAM", help="The interpreter.  [default: the active environment's]")
@click.option("--fit", is_flag=True, help="Shrink cpu, memory and GPUs of a manifest to this machine.")
@click.option("--cold", is_flag=True, help="Start every rank anew, not from a warm interpreter.")
@click.option("--detach", is_flag=True, help="Return at once; the job outlives the terminal.")
@click.option("--image", metavar="IMAGE", help="In a cluster: of every container.  [default: $BIREME_IMAGE]")
@click.option("--from", "continues", metavar="JOB[@STEP]", help="Go on from another run's checkpoint.")
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
    asked = Asked(**words)
    _refuse_cluster_words()
    if asked.name == "":
        raise errors.BadInput("--name is empty", hint="leave it out, or name the job: --name mnist")
    client = opened()
    here = terminal.this_terminal()
    is_here = client.places.backend is Backend.LOCAL
    alone = not asked.files and (asked.workers or 1) == 1
    reads = is_here and alone and not asked.detach
    at_terminal = reads and here.stdin
    options = RunOptions(
        env=override_options.environment(asked.env),
        maps=override_options.maps(asked.map),
        volumes=override_options.volumes(asked.volume),
        command=override_options.words(asked.command),
        python=asked.python or "",
        image=asked.image or "",
        fits=asked.fit,
        detached=asked.detach,
        warm=not asked.cold,
        stdin=reads and not here.stdin,
        # A single rank may read what its user types: `input()`, `breakpoint()`.
        terminal=terminal.terminal_name() if at_terminal else "",
        continues=asked.continues or "",
    )
    batch = _prepared(client, asked, options)
    for warning in batch.warnings if is_here else batch.warnings_in_a_cluster:
        say(f"warning: {warning}")
    try:
        handles = client.start(batch)
    except errors.BiremeError as error:
        _add_command(error)
        raise
    for note in dict.fromkeys(note for one in handles for note in one.notes):
        say(f"note: {note}")
    if asked.detach:
        _leave(handles, asked)
        return
    with handles[0].attending() if at_terminal else nullcontext():
        status = conclude(
            handles, here, live=here.stderr and not at_terminal, typed=at_terminal, quiet=asked.as_json
        )
    if asked.as_json:
        _print(handles)
    sys.exit(status)


def _add_command(error: errors.BiremeError) -> None:
    """Adds the command line that supplies all that an error asks for."""
    if error.flags:
        words, ours = click.get_current_context().meta[_WORDS]
        error.hint = "\n".join(script_options.supplemented(words, error.flags, ours, error.by_hand))


def _refuse_cluster_words() -> None:
    """A script's own `--context` must not be taken for ours in silence."""
    found = backend_options.chosen()
    if found.names_a_cluster and not found.on and os.environ.get(VARIABLE) != Backend.KUBERNETES:
        raise errors.BadInput(
            "--context, --namespace and --kubeconfig are of a cluster, and the job is to run here",
            hint="add --on kubernetes; options of a script come after --",
        )


def _prepared(client: Client, asked: Asked, options: RunOptions) -> SubmissionBatch:
    if not asked.files:
        return client.prepare_script(_script(asked), options)
    _refuse_script_words(asked)
    return client.prepare(asked.files, options, asked.name or "", lambda size: sys.stdin.buffer.read(size))


def _script(asked: Asked) -> Script:
    if asked.script is None:
        raise errors.BadInput(
            "there is nothing to run", hint="bireme run train.py --workers 2, or bireme run -f job.yaml"
        )
    if asked.script.endswith((".yaml", ".yml", ".json")) and not asked.is_module:
        raise errors.BadInput(f"{asked.script} is a manifest", hint=f"bireme run -f {asked.script}")
    if asked.command is not None:
        raise errors.BadInput(
            "--command stands for a manifest's entrypoint, and a script needs none",
            hint=f"bireme run {asked.script}",
        )
    return Script(
        path=asked.script,
        args=asked.args,
        is_module=asked.is_module,
        name=asked.name or "",
        workers=1 if asked.workers is None else asked.workers,
        gpu=asked.gpu or 0,
        cpu=asked.cpu or "",
        memory=asked.memory or "",
        retries=Script(path="").retries if asked.retries is None else asked.retries,
    )


def _refuse_script_words(asked: Asked) -> None:
    if asked.script is not None:
        raise errors.BadInput(
            f"both a manifest and {asked.script} are given", hint="give a script, or a manifest with -f"
        )
    for option in ("workers", "gpu", "cpu", "memory", "retries"):
        if getattr(asked, option) is not None:
            raise errors.BadInput(
                f"--{option} is for a script; a manifest says that itself",
                hint="edit the manifest, or let --fit shrink it to this machine",
            )
    if asked.is_module:
        raise errors.BadInput("--module is for a script", hint="bireme run -m package.train")


def _leave(handles: tuple[JobHandle, ...], asked: Asked) -> None:
    if asked.as_json:
        _print(handles)
        return
    for one in handles:
        print(one.id, flush=True)
        say(f"{one.id} goes on without you; follow it with `bireme logs -f {one.id}`")


def _print(handles: tuple[JobHandle, ...]) -> None:
    print_json(JobViews(jobs=tuple(one.view() for one in handles)))
