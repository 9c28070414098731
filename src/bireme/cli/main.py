"""Runs the verb that the words after `bireme` name, loads it alone, and ends with its errors.

`bireme --help` is shown often, and by shells for completion: it imports click and nothing else of weight.
"""

from __future__ import annotations

import gc
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TextIO

import click

from bireme import __version__, errors
from bireme.cli import backend_options
from bireme.cli.render.text import safe
from bireme.cli.terminal import columns

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_NARROW = 52
BROKEN_PIPE = 141
"""What a shell reports of a program that writes to a pipe without a reader: 128 and SIGPIPE."""


class Verb(NamedTuple):
    module: str
    summary: str


VERBS = {
    "run": Verb("run", "Run a script or a manifest, here or in a cluster, and follow it."),
    "ps": Verb("ps", "List the jobs that are active, and the last ones that have ended."),
    "logs": Verb("logs", "Print what a job's replicas printed."),
    "show": Verb("show", "Show a job: replicas, conditions, events, why it waits or failed."),
    "stacks": Verb("stacks", "Print where the Python code of each rank is now."),
    "checkpoints": Verb("checkpoints", "List the checkpoints of a job, or export one."),
    "tensorboard": Verb("tensorboard", "Show in TensorBoard what a job reported."),
    "wait": Verb("wait", "Wait until jobs have ended, and exit with their status."),
    "stop": Verb("stop", "Suspend jobs; they can be resumed."),
    "resume": Verb("resume", "Resume jobs that were stopped, or that failed."),
    "scale": Verb("scale", "Change how many ranks a script has, or replicas a role."),
    "rm": Verb("rm", "End jobs and delete what they left."),
    "check": Verb("check", "Say whether manifests are valid; start nothing."),
    "render": Verb("render", "Print a manifest in full, short form included."),
    "explain": Verb("explain", "Explain an error code."),
    "doctor": Verb("doctor", "Say what this machine or a cluster offers, and what is missing."),
    "install": Verb("install", "Install the operator and the job kinds into a cluster."),
    "uninstall": Verb("uninstall", "Take the operator and the job kinds out of a cluster."),
    "operator": Verb("operator", "Run the operator of a cluster until it is stopped."),
    "completion": Verb("completion", "Print the shell's completion script."),
}


class _Unread(Exception):
    """What we write is not read any more, as after `| head -1`."""


class Verbs(click.Group):
    """Knows its verbs by name, and imports one only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        # What an import makes is kept, so that a collection meanwhile finds nothing and costs a twentieth.
        gc.disable()
        module = importlib.import_module(f"bireme.cli.verbs.{VERBS[cmd_name].module}")
        gc.enable()
        command: click.Command = module.command
        if cmd_name in backend_options.VERBS:
            command.epilog = backend_options.EPILOG
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, backend_options.hoisted(args))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            raise errors.BadInput(f"there is no verb {args[0]!r}", hint=_advice(args[0]))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _Unread from error  # click would make an ordinary failure of it, with status 1

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, verb.summary) for name, verb in VERBS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        found = [name for name in VERBS if name.startswith(incomplete)]
        return [CompletionItem(name, help=VERBS[name].summary) for name in found]


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`bireme VERB --help` explains a verb. Start with: bireme run train.py --workers 2",
)
@click.version_option(__version__, message="bireme %(version)s")
@backend_options.options
@click.pass_context
def bireme(
    ctx: click.Context, on: str | None, context: str | None, namespace: str | None, kubeconfig: str | None
) -> None:
    """Runs distributed training, from a script or a Kubeflow manifest: here and now, or in a cluster."""
    ctx.obj = backend_options.Chosen(on or "", context or "", namespace or "", kubeconfig or "")
    if any(ctx.obj) and ctx.invoked_subcommand not in backend_options.VERBS:
        raise errors.BadInput(
            f"{' and '.join(backend_options.OPTIONS)} do not apply to `{ctx.invoked_subcommand}` there",
            hint=f"`bireme {ctx.invoked_subcommand} --help` lists its own options, which come after it",
        )


def main(argv: Sequence[str] | None = None) -> None:
    """The entry point: runs a verb and exits with its status."""
    _prepare_streams()
    status = _guarded(list(sys.argv[1:] if argv is None else argv))
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        _silence()
    sys.exit(status)


def _prepare_streams() -> None:
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            # Closed before we began. Left so, the next file that is opened would take its number.
            os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")
    for stream in (sys.stdout, sys.stderr):
        # A rank may print what this terminal cannot show; that is no reason to end.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _guarded(args: list[str]) -> int:
    try:
        width = columns()
        answer = bireme.main(
            args=args or ["--help"],
            prog_name="bireme",
            standalone_mode=False,
            terminal_width=width - 2 if width < _NARROW else None,  # else click's own is narrower
        )
        sys.stdout.flush()
        return answer if isinstance(answer, int) else 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except errors.BiremeError as error:
        return _failed(str(error), error.exit_status)
    except click.UsageError as error:
        text = error.format_message().rstrip(".")
        text = text[:1].lower() + text[1:]
        verb = error.ctx.command_path if error.ctx else "bireme"
        return _failed(f"{text}\n`{verb} --help` lists what it takes", errors.BadInput.exit_status)
    except click.ClickException as error:
        return _failed(error.format_message(), errors.BadInput.exit_status)
    except (KeyboardInterrupt, click.Abort):
        return _failed("interrupted", errors.Interrupted.exit_status)
    except (BrokenPipeError, _Unread):
        _silence()
        return BROKEN_PIPE
    except OSError as error:
        from bireme.cli import unexpected_errors  # here, because it is hardly ever needed

        found = unexpected_errors.of_the_system(error)
        if found is not None:
            return _failed(str(found), found.exit_status)
        return _failed(unexpected_errors.bug_report(error), errors.OurBug.exit_status)
    except Exception as error:
        from bireme.cli import unexpected_errors

        return _failed(unexpected_errors.bug_report(error), errors.OurBug.exit_status)


def _failed(text: str, status: int) -> int:
    try:
        sys.stdout.flush()
    except OSError:
        _silence(sys.stdout)
    try:
        print(f"bireme: {safe(text)}", file=sys.stderr, flush=True)
    except OSError:
        _silence()
    return status


def _advice(word: str) -> str:
    if word.endswith(".ipynb"):
        from bireme.core.scripts import interpreters  # here, because it is hardly ever needed

        return interpreters.by_name(word).hint
    if word.endswith((".py", ".sh")):
        return f"to run a script: bireme run {word}"
    if word.endswith((".yaml", ".yml", ".json")):
        return f"to run a manifest: bireme run -f {word}"
    import difflib  # here, because it is hardly ever needed

    near = difflib.get_close_matches(word, VERBS)
    if "run" in near and near[0] == "rm":  # which deletes, and is as near to `rum`
        near = ["run"]
    return f"did you mean `bireme {near[0]}`?" if near else "`bireme --help` lists the verbs"


def _silence(*streams: TextIO) -> None:
    """Lets the interpreter end without another complaint about a pipe that is closed."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in streams or (sys.stdout, sys.stderr):
        try:
            os.dup2(null, stream.fileno())
        except (OSError, ValueError):
            continue
