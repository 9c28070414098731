"""`bireme check`: says whether manifests are valid."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click
from msgspec.structs import replace

from bireme import errors
from bireme.cli import backend_options, manifest_arguments, script_options
from bireme.cli.invocation import as_json, print_json, print_lines, say
from bireme.cli.render import text
from bireme.sdk.backends import BackendName
from bireme.sdk.views import CheckError, CheckView

_SCRIPTS = (".py", ".sh", ".ipynb")


@click.command("check", short_help="Say whether manifests are valid; start nothing.")
@manifest_arguments.files
@manifest_arguments.more
@as_json
def command(files: tuple[str, ...], more: tuple[str, ...], as_json: bool) -> None:
    """Says whether manifests are valid, and what stands in the way of running them here.

    Exits with 2 if one is not valid. What only this machine lacks is said, and is no error. With
    --on kubernetes the API server is asked, which changes nothing either. Of a script (FILE.py, FILE.sh) it
    lists which files would go with it to a cluster, and which would not.
    """
    view, refused = _looked(files, more)
    if as_json:
        print_json(view)
        sys.exit(refused[0].exit_status if refused else 0)
    for warning in view.warnings:
        say(f"warning: {warning}")
    for job in view.jobs:
        roles = ", ".join(f"{count} {role}" for role, count in job.replicas.items())
        lines = [f"{job.file}:{job.line}: {job.kind} {job.name} is valid ({roles})"]
        if job.here:
            is_here = backend_options.chosen().client().places.backend is BackendName.LOCAL
            place = "on this machine" if is_here else "in the cluster"
            lines += text.indented([f"to run it {place}, more is needed:", *job.here.splitlines()], "  ")
        if job.flags:
            command_line = script_options.supplemented(["-f", job.file], job.flags, {"-f": True}, job.by_hand)
            lines += text.indented(command_line, "  ")
        print_lines(lines + [f"  note: {note}" for note in job.notes])
    for script in view.scripts:
        sections = (
            (f"{script.script}: these files of {script.folder} go with it to a cluster:", script.sent),
            ("left out by ignore files:", script.left_out),
            ("never sent, because their names are those of keys or credentials:", script.never_sent),
        )
        for title, names in sections:
            if names:
                print_lines([title, *text.indented(names, "  ")])
    # What is not about a manifest comes after what is: it is the error that the command ends with.
    bad = [error for error in refused if isinstance(error, errors.BadManifest)]
    others = [error for error in refused if not isinstance(error, errors.BadManifest)]
    if bad and others:
        say(f"bireme: {manifest_arguments.together(bad)}")
    if refused:
        raise others[0] if others else manifest_arguments.together(bad)


def _looked(
    files: tuple[str, ...], more: tuple[str, ...]
) -> tuple[CheckView, tuple[errors.BiremeError, ...]]:
    """Checks everything, whatever goes wrong; the errors stand in the view too."""
    view = CheckView(jobs=(), warnings=())
    refused: tuple[errors.BiremeError, ...] = ()
    scripts = tuple(word for word in more if word.endswith(_SCRIPTS))
    others = tuple(word for word in more if not word.endswith(_SCRIPTS))
    try:
        client = backend_options.chosen().client()
        if files or others or not scripts:
            found = manifest_arguments.read(client, files, others)
            refused = found.refused
            view = replace(
                view, warnings=tuple(str(warning) for each in found.refused for warning in each.warnings)
            )
            if found.batch.submissions:
                checked = client.checked(found.batch)
                view = replace(checked, warnings=(*view.warnings, *checked.warnings))
        if scripts:
            from bireme.sdk.cluster.cluster_submission import files_of_script  # manifests need none of it

            view = replace(view, scripts=tuple(files_of_script(script, Path.cwd()) for script in scripts))
    except errors.BiremeError as error:
        refused = (*refused, error)
    return replace(view, errors=tuple(entry for error in refused for entry in _errors(error))), refused


def _errors(error: errors.BiremeError) -> Iterator[CheckError]:
    diagnostics = error.diagnostics if isinstance(error, errors.BadManifest) else ()
    for diagnostic in diagnostics:
        yield CheckError(
            code=error.code,
            text=diagnostic.text,
            hint=diagnostic.hint,
            file=diagnostic.file,
            line=diagnostic.line,
            column=diagnostic.column,
            field=diagnostic.field,
        )
    if not diagnostics:
        yield CheckError(code=error.code, text=error.what, hint=error.hint)
