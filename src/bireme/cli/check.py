"""`bireme check`: are manifests valid."""

from __future__ import annotations

from pathlib import Path

import click
from msgspec.structs import replace

from bireme.cli import manifests, script_options, text, where
from bireme.cli.opening import as_json, print_json, print_lines, say
from bireme.sdk.places import Backend
from bireme.sdk.views import CheckedJob, CheckView, ScriptFiles


@click.command("check", short_help="Say whether manifests are valid; start nothing.")
@manifests.files
@manifests.more
@as_json
def command(files: tuple[str, ...], more: tuple[str, ...], as_json: bool) -> None:
    """Says whether manifests are valid, and what stands in the way of running them here.

    Exits with 2 if one is not valid. What only this machine lacks is said, and is no error. With
    --on kubernetes the API server is asked, which changes nothing either. Of a script (FILE.py) it lists
    which files would go with it to a cluster, and which would not.
    """
    chosen = where.chosen()
    client = chosen.client()
    scripts = tuple(_files_of(one) for one in more if one.endswith(".py"))
    manifests_given = tuple(one for one in more if not one.endswith(".py"))
    view = CheckView(jobs=(), warnings=())
    if files or manifests_given or not scripts:
        view = client.checked(manifests.ordered(client, files, manifests_given))
    view = replace(view, scripts=scripts)
    if as_json:
        print_json(view)
        return
    for warning in view.warnings:
        say(f"warning: {warning}")
    for job in view.jobs:
        print_lines(_lines(job, client.places.backend))
    for script in view.scripts:
        print_lines(_script(script))


def _files_of(script: str) -> ScriptFiles:
    from bireme.sdk import scriptfiles  # here, because it loads a part of the cluster's backend

    return scriptfiles.of_script(script, Path.cwd())


def _script(found: ScriptFiles) -> list[str]:
    sections = (
        (f"{found.script}: these files of {found.folder} go with it to a cluster:", found.sent),
        ("left out by ignore files:", found.left_out),
        ("never sent, because their names are those of keys or credentials:", found.never_sent),
    )
    return [line for title, names in sections if names for line in (title, *text.indented(names, "  "))]


def _lines(job: CheckedJob, backend: Backend) -> list[str]:
    roles = ", ".join(f"{count} {role}" for role, count in job.replicas.items())
    lines = [f"{job.file}:{job.line}: {job.kind} {job.name} is valid ({roles})"]
    if job.here:
        place = "on this machine" if backend is Backend.LOCAL else "in the cluster"
        lines += text.indented([f"to run it {place}, more is needed:", *job.here.splitlines()], "  ")
    if job.flags:
        command = script_options.supplemented(["-f", job.file], job.flags, {"-f": True})
        lines += text.indented([f"with all of it: {command}"], "  ")
    return lines + [f"  note: {note}" for note in job.notes]
