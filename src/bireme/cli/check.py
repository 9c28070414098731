"""`bireme check`: are manifests valid."""

from __future__ import annotations

import click

from bireme.cli import manifests, text, where
from bireme.cli.opening import as_json, print_json, print_lines, say
from bireme.sdk.places import Backend
from bireme.sdk.views import CheckedJob


@click.command("check", short_help="Say whether manifests are valid; start nothing.")
@manifests.files
@manifests.more
@as_json
def command(files: tuple[str, ...], more: tuple[str, ...], as_json: bool) -> None:
    """Says whether manifests are valid, and what stands in the way of running them here.

    Exits with 2 if one is not valid. What only this machine lacks is said, and is no error. With
    --on kubernetes the API server is asked, which changes nothing either.
    """
    chosen = where.chosen()
    client = chosen.client()
    view = client.checked(manifests.ordered(client, files, more))
    if as_json:
        print_json(view)
        return
    for warning in view.warnings:
        say(f"warning: {warning}")
    for job in view.jobs:
        print_lines(_lines(job, client.places.backend))


def _lines(job: CheckedJob, backend: Backend) -> list[str]:
    roles = ", ".join(f"{count} {role}" for role, count in job.replicas.items())
    lines = [f"{job.file}:{job.line}: {job.kind} {job.name} is valid ({roles})"]
    if job.here:
        place = "on this machine" if backend is Backend.LOCAL else "in the cluster"
        lines += text.indented([f"to run it {place}, more is needed:", *job.here.splitlines()], "  ")
    return lines + [f"  note: {note}" for note in job.notes]
